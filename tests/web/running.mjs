// A clef-server and a Chromium for the length of a test run, and the ways that tests go through the page.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { chromium } from 'playwright-core';

export const MODEL_NAME = 'clef-tiny';

export class RunningServer {
  /** @param {string} [keys] text of a keys file */
  static async start(program, model, flags = [], keys = '', name = MODEL_NAME) {
    const server = new RunningServer();
    server.folder = mkdtempSync(join(tmpdir(), 'clef-web-'));
    const all = [
      '-m',
      model,
      '--name',
      name,
      '--access-log',
      join(server.folder, 'access.log'),
      '--drain-delay',
      '0',
      ...flags,
    ];
    if (!flags.includes('--port')) all.push('--port', '0');
    if (keys !== '') {
      writeFileSync(join(server.folder, 'keys'), keys);
      all.push('--keys', join(server.folder, 'keys'));
    }
    server.process = spawn(program, all, { stdio: ['ignore', 'inherit', 'pipe'] });
    server.exited = new Promise((resolve) => server.process.on('exit', (code) => resolve(code)));
    await new Promise((resolve, reject) => {
      let log = '';
      server.process.stderr.on('data', (bytes) => {
        log += bytes;
        server.url = log.match(/listening on (http:\S+),/)?.[1];
        if (/: ready: /.test(log)) resolve();
      });
      server.exited.then((code) => reject(new Error(`the server ended with ${code}: ${log}`)));
    });
    return server;
  }

  async stop() {
    if (this.process.exitCode === null) this.process.kill('SIGTERM');
    const code = await this.exited;
    rmSync(this.folder, { recursive: true, force: true });
    return code;
  }
}

export function startBrowser() {
  return chromium.launch({
    executablePath: process.env.CLEF_CHROMIUM,
    args: [
      '--no-sandbox', // root has none in a container
      '--disable-dev-shm-usage', // nor much of that
      '--use-fake-device-for-media-stream',
      '--use-fake-ui-for-media-stream',
    ],
  });
}

/** Waits until every row is answered or refused. */
export const allAnswered = (page) =>
  page.waitForFunction(() => document.querySelector('.progress')?.getAttribute('aria-valuenow') === '100', null, {
    timeout: 120_000,
  });

export const GOLDEN = join(process.env.CLEF_REPOSITORY ?? '.', 'tests/golden');
export const GOLDEN_IMAGES = join(GOLDEN, 'images');

/** A recording made by the browser itself: a square that moves, for two seconds. */
export async function recordClip(page) {
  const base64 = await page.evaluate(async () => {
    const canvas = Object.assign(document.createElement('canvas'), { width: 320, height: 240 });
    const context = canvas.getContext('2d');
    const recorder = new MediaRecorder(canvas.captureStream(20), { mimeType: 'video/webm;codecs=vp8' });
    const parts = [];
    recorder.ondataavailable = (event) => parts.push(event.data);
    const stopped = new Promise((resolve) => (recorder.onstop = resolve));
    recorder.start();
    const began = performance.now();
    await new Promise((resolve) => {
      const draw = () => {
        const time = (performance.now() - began) / 1000;
        context.fillStyle = '#234';
        context.fillRect(0, 0, 320, 240);
        context.fillStyle = '#fd4';
        context.fillRect(20 + 100 * time, 90, 60, 60);
        if (time < 2) requestAnimationFrame(draw);
        else resolve();
      };
      draw();
    });
    recorder.stop();
    await stopped;
    const bytes = new Uint8Array(await new Blob(parts).arrayBuffer());
    return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(''));
  });
  return { name: 'clip.webm', mimeType: 'video/webm', buffer: Buffer.from(base64, 'base64') };
}

/** Tickets as CSV, every one another. */
export function manyTickets(count) {
  const subjects = ['Charged twice', 'Cannot sign in', 'Question about seats', 'Export is empty', 'Thank you'];
  const rows = Array.from(
    { length: count },
    (_, i) =>
      `${i + 1},${subjects[i % 5]},"Ticket ${i + 1}: it is about ""${subjects[(i * 3) % 5].toLowerCase()}"", please help."`,
  );
  return { name: 'tickets.csv', mimeType: 'text/csv', buffer: Buffer.from(`id,subject,message\n${rows.join('\n')}\n`) };
}
