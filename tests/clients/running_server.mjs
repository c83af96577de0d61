// A clef-server for the length of a test run, on a port of its own.
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export class RunningServer {
  static async start(program, model, flags, keys) {
    const server = new RunningServer();
    server.folder = mkdtempSync(join(tmpdir(), 'clef-clients-'));
    writeFileSync(join(server.folder, 'keys'), keys);
    const all = ['-m', model, '--port', '0', '--keys', join(server.folder, 'keys'), '--access-log',
      join(server.folder, 'access.log'), '--drain-delay', '0', ...flags];
    server.process = spawn(program, all, { stdio: ['ignore', 'inherit', 'pipe'] });
    server.exited = new Promise((resolve) => {
      server.process.on('exit', (code, signal) => resolve({ code, signal }));
      server.process.on('error', (error) => resolve({ code: error.message }));
    });
    await new Promise((resolve, reject) => {
      let log = '';
      server.process.stderr.on('data', (bytes) => {
        log += bytes;
        server.url = log.match(/listening on (http:\S+),/)?.[1];
        if (/: ready: /.test(log)) resolve();
      });
      server.exited.then(({ code }) => reject(new Error(`the server ended with ${code}: ${log}`)));
    });
    return server;
  }

  // Of the access log, as it stands.
  lines() {
    return readFileSync(join(this.folder, 'access.log'), 'utf8').split('\n').filter(Boolean).map((line) => JSON.parse(line));
  }

  // In order; the exit code.
  async stop() {
    this.process.kill('SIGTERM');
    const { code } = await this.exited;
    rmSync(this.folder, { recursive: true });
    return code;
  }
}
