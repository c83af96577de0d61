// Many requests through the batch route. They go in segments, two at a time: a browser sends all of a body before it reads
// any of the answer, so a body must be small enough for the answers to wait, and the next one has to be there already.
import { askBatch } from './engine.js';
import { Problem } from './problem.js';

/** @typedef {import('./json.js').Value} Value */

const MAX_SEGMENT_ROWS = 64;
const MAX_SEGMENT_BYTES = 1 << 20;
const NUM_IN_FLIGHT = 2;
const MAX_FAILURES = 5; // of segments in a row, without one answer between
const RATE_WINDOW_MS = 4000;

/** @typedef {'idle' | 'running' | 'paused' | 'done'} Phase */

/**
 * @typedef {object} Callbacks
 * @property {(index: number) => Promise<string>} requestOf as one line
 * @property {(index: number, line: Value) => boolean} onanswer false: the engine did not take the row, and it has to be sent again
 * @property {(index: number, error: unknown) => void} onunsendable no request could be made of the row
 * @property {() => void} onchange of the phase or the problem
 */

export class BatchRun {
  /** @param {Callbacks} callbacks */
  constructor(callbacks) {
    this.callbacks = callbacks;
    /** @type {Phase} */
    this.phase = 'idle';
    /** Rows that wait, first to last. @type {number[]} */
    this.waiting = [];
    this.numFailures = 0;
    /** @type {Problem | null} */
    this.problem = null;
    this.controller = new AbortController();
    /** What the last start or resume set to work. @type {Promise<void>[]} */
    this.workers = [];
    this.numStarts = 0;
    /** When answers came, lately. @type {number[]} */
    this.times = [];
  }

  /** @param {number[]} indices */
  start(indices) {
    this.stop();
    this.waiting = [...indices];
    void this.resume();
  }

  async resume() {
    const controller = new AbortController();
    this.controller = controller;
    this.problem = null;
    this.numFailures = 0;
    this.times = [];
    this.enter('running');
    await Promise.all(this.workers); // what they held waits again
    if (controller.signal.aborted) return;
    this.workers = Array.from({ length: NUM_IN_FLIGHT }, () => this.work(controller.signal));
    await Promise.all(this.workers);
    if (!controller.signal.aborted) this.enter('done');
  }

  /** What is at work is dropped, and waits again. */
  pause() {
    if (this.phase !== 'running') return;
    this.enter('paused');
    this.controller.abort();
  }

  stop() {
    this.numStarts += 1;
    this.controller.abort();
    this.waiting = [];
    this.enter('idle');
  }

  /** @param {Phase} phase */
  enter(phase) {
    this.phase = phase;
    this.callbacks.onchange();
  }

  /** Rows a second, lately. */
  rate() {
    const now = performance.now();
    while (this.times.length > 0 && this.times[0] < now - RATE_WINDOW_MS) this.times.shift();
    const span = Math.min(RATE_WINDOW_MS, now - (this.times[0] ?? now));
    return span > 200 ? (this.times.length * 1000) / span : 0;
  }

  /** @param {AbortSignal} signal of this start or resume */
  async work(signal) {
    while (!signal.aborted && this.waiting.length > 0) {
      const pause = await this.segment(signal);
      if (pause > 0 && !signal.aborted) await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }

  /**
   * Takes rows off the front until the segment is full.
   * @param {AbortSignal} signal
   */
  async take(signal) {
    /** @type {number[]} */
    const indices = [];
    /** @type {string[]} */
    const lines = [];
    let bytes = 0;
    while (this.waiting.length > 0 && indices.length < MAX_SEGMENT_ROWS && bytes < MAX_SEGMENT_BYTES) {
      const index = /** @type {number} */ (this.waiting.shift());
      try {
        const line = await this.callbacks.requestOf(index);
        indices.push(index);
        lines.push(line);
        bytes += line.length;
      } catch (error) {
        this.callbacks.onunsendable(index, error);
      }
      if (signal.aborted) break;
    }
    return { indices, lines };
  }

  /**
   * One body there and back.
   * @param {AbortSignal} signal
   * @returns {Promise<number>} milliseconds to wait before the next
   */
  async segment(signal) {
    const { numStarts } = this;
    const { indices, lines } = await this.take(signal);
    const open = new Set(indices);
    /** @type {unknown} */
    let failure = null;
    try {
      if (lines.length > 0 && !signal.aborted) {
        await askBatch(
          lines,
          (place, line) => {
            const index = indices[place];
            if (index === undefined || signal.aborted || !this.callbacks.onanswer(index, line)) return;
            open.delete(index);
            this.numFailures = 0;
            this.times.push(performance.now());
          },
          signal,
        );
      }
      if (open.size > 0 && !signal.aborted) failure = new Problem('The engine left rows out', { status: 503 });
    } catch (error) {
      failure = error;
    }
    // Stopped meanwhile, or started anew with other rows: then what this one held does not come back.
    if (numStarts === this.numStarts) this.waiting = [...open, ...this.waiting].sort((a, b) => a - b);
    if (failure === null || signal.aborted) return 0;
    const problem =
      failure instanceof Problem
        ? failure
        : new Problem('This page made a mistake', { said: String(failure), status: 1 });
    this.numFailures += 1;
    this.problem = problem;
    if (problem.isTransient && this.numFailures < MAX_FAILURES) {
      this.callbacks.onchange();
      return problem.retryAfterMs ?? 250 * 2 ** this.numFailures;
    }
    this.pause();
    return 0;
  }
}
