// Draws the pictures of docs/images: every view, light and dark, on a desktop and on a phone.
//   images.mjs SERVER_PROGRAM MODEL [PICTURE_MODEL]
// PICTURE_MODEL answers about pictures, where MODEL reads text alone.
import { mkdirSync } from 'node:fs';
import { basename, join } from 'node:path';

import { allAnswered, RunningServer, startBrowser } from './running.mjs';

const [program, model, pictureModel = model] = process.argv.slice(2);
const folder = join(process.env.CLEF_REPOSITORY, 'docs/images');

const SIZES = {
  desktop: { viewport: { width: 1280, height: 832 } },
  phone: { viewport: { width: 390, height: 780 }, hasTouch: true, isMobile: true },
};

/** A receipt on a table, drawn by the browser. */
async function receipt(page) {
  const base64 = await page.evaluate(() => {
    const canvas = Object.assign(document.createElement('canvas'), { width: 640, height: 480 });
    const context = canvas.getContext('2d');
    context.fillStyle = '#8a6b4f';
    context.fillRect(0, 0, 640, 480);
    context.translate(320, 240);
    context.rotate(-0.06);
    context.fillStyle = '#fbfaf6';
    context.fillRect(-130, -205, 260, 410);
    context.fillStyle = '#222';
    context.textAlign = 'center';
    context.font = '600 22px Inter, sans-serif';
    context.fillText('Brasserie Garance', 0, -160);
    context.font = '15px "JetBrains Mono", monospace';
    context.fillText('14.03.2026   20:41', 0, -130);
    const lines = [
      ['3 Menu du soir', '135.00'],
      ['1 Cotes du Rhone', '38.00'],
      ['3 Cafe', '11.50'],
    ];
    lines.forEach(([what, price], i) => {
      context.textAlign = 'left';
      context.fillText(what, -105, -70 + 34 * i);
      context.textAlign = 'right';
      context.fillText(price, 105, -70 + 34 * i);
    });
    context.fillRect(-105, 38, 210, 2);
    context.font = '700 20px "JetBrains Mono", monospace';
    context.textAlign = 'left';
    context.fillText('TOTAL', -105, 72);
    context.textAlign = 'right';
    context.fillText('184.50', 105, 72);
    context.textAlign = 'center';
    context.font = '14px Inter, sans-serif';
    context.fillText('Merci et a bientot', 0, 150);
    return canvas.toDataURL('image/png').split(',')[1];
  });
  return { name: 'receipt.png', mimeType: 'image/png', buffer: Buffer.from(base64, 'base64') };
}

/** Each leaves the page as its picture shows it. */
const VIEWS = {
  async ask(page) {
    // Two runs, so that the history has some.
    await page.click('text="Moderation"');
    await Promise.all([page.waitForResponse(/systemone$/), page.click('button.ask')]);
    await page.click('text="Ticket triage"');
    await Promise.all([page.waitForResponse(/systemone$/), page.click('button.ask')]);
    await page.waitForSelector('[aria-label=Answers]:not([aria-busy])');
    await page.waitForSelector('.answer');
  },
  async see(page) {
    await page.setInputFiles('.see-view input[type=file]', await receipt(page));
    await page.waitForSelector('.thumb');
    await page.click('.see-view .chip >> text=Receipt');
    await page.click('button.ask');
    await page.waitForSelector('.answer');
  },
  async triage(page) {
    await page.click('text=Take 12 sample tickets');
    await page.click('.run-bar >> text=Start');
    await allAnswered(page);
    await page.getByLabel('Probability of').selectOption({ index: 1 });
    await page.getByLabel('Threshold').first().fill('0.3');
  },
  async history() {},
};

const start = (path) => RunningServer.start(program, path, [], '', basename(path, '.gguf'));
const server = await start(model);
const pictureServer = pictureModel === model ? server : await start(pictureModel);
const browser = await startBrowser();
mkdirSync(folder, { recursive: true });
for (const [sizeName, size] of Object.entries(SIZES)) {
  for (const colorScheme of ['light', 'dark']) {
    const context = await browser.newContext({ ...size, colorScheme, reducedMotion: 'reduce', locale: 'en-GB' });
    const page = await context.newPage();
    for (const [view, prepare] of Object.entries(VIEWS)) {
      await page.goto(`${(view === 'see' ? pictureServer : server).url}/#${view}`);
      await page.waitForSelector(`.${view}-view`);
      await prepare(page);
      await page.mouse.move(0, 0);
      await page.evaluate(() => document.activeElement?.blur());
      const isLong = sizeName === 'phone' && (view === 'ask' || view === 'see');
      if (isLong) await page.locator('.answer').first().scrollIntoViewIfNeeded();
      if (isLong)
        await page.evaluate(() =>
          window.scrollBy(0, document.querySelector('.output').getBoundingClientRect().top - 110),
        );
      await page.waitForTimeout(400);
      await page.screenshot({ path: join(folder, `${view}-${sizeName}-${colorScheme}.png`) });
    }
    await context.close();
  }
}
await browser.close();
if (pictureServer !== server) await pictureServer.stop();
process.exit(await server.stop());
