// Draws the pictures of docs/images: every view, light and dark, on a desktop and on a phone.
//   images.mjs SERVER_PROGRAM MODEL [MODEL_NAME]
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';

import { allAnswered, GOLDEN_IMAGES, RunningServer, startBrowser } from './running.mjs';

const [program, model, name] = process.argv.slice(2);
const folder = join(process.env.CLEF_REPOSITORY, 'docs/images');

const SIZES = {
  desktop: { viewport: { width: 1280, height: 832 } },
  phone: { viewport: { width: 390, height: 780 }, hasTouch: true, isMobile: true },
};

/** Each leaves the page as its picture shows it. */
const VIEWS = {
  async ask(page) {
    await page.click('button.ask');
    await page.waitForSelector('.answer');
  },
  async see(page) {
    await page.setInputFiles('.see-view input[type=file]', join(GOLDEN_IMAGES, 'webcam_336x252.jpg'));
    await page.waitForSelector('.thumb');
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

const server = await RunningServer.start(program, model, name ? ['--name', name] : []);
const browser = await startBrowser();
mkdirSync(folder, { recursive: true });
for (const [sizeName, size] of Object.entries(SIZES)) {
  for (const colorScheme of ['light', 'dark']) {
    const context = await browser.newContext({ ...size, colorScheme, reducedMotion: 'reduce', locale: 'en-GB' });
    const page = await context.newPage();
    for (const [view, prepare] of Object.entries(VIEWS)) {
      await page.goto(`${server.url}/#${view}`);
      await page.waitForSelector(`.${view}-view`);
      await prepare(page);
      await page.mouse.move(0, 0);
      await page.evaluate(() => document.activeElement?.blur());
      const isLong = sizeName === 'phone' && (view === 'ask' || view === 'see');
      if (isLong) await page.locator('.answer').first().scrollIntoViewIfNeeded();
      if (isLong) await page.evaluate(() => window.scrollBy(0, document.querySelector('.output').getBoundingClientRect().top - 110));
      await page.waitForTimeout(400);
      await page.screenshot({ path: join(folder, `${view}-${sizeName}-${colorScheme}.png`) });
    }
    await context.close();
  }
}
await browser.close();
process.exit(await server.stop());
