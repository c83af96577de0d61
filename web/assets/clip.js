// A video file, sampled to frames in the browser: the engine reads pictures, not containers.
import { drawn } from './pictures.js';

/**
 * @typedef {object} Clip
 * @property {string[]} frames data URLs, all of one size
 * @property {number[]} times of the frames, in seconds
 * @property {number} fps frames a second
 * @property {number} width
 * @property {number} height
 */

const GRID = 32; // pixels of a token's side
const SEEK_LIMIT_MS = 10_000;

/**
 * @param {EventTarget} target
 * @param {string} type
 */
const event = (target, type) =>
  new Promise((resolve, reject) => {
    const limit = setTimeout(
      () => reject(new Error('the browser cannot find the frames of this video')),
      SEEK_LIMIT_MS,
    );
    const settle = (/** @type {() => void} */ then) => () => {
      clearTimeout(limit);
      target.removeEventListener(type, good);
      target.removeEventListener('error', bad);
      then();
    };
    const good = settle(() => resolve(undefined));
    const bad = settle(() => reject(new Error('the browser cannot play this video')));
    target.addEventListener(type, good);
    target.addEventListener('error', bad);
  });

/**
 * Sides in multiples of the grid, so that all pairs of frames together stay within the tokens.
 * @param {number} width
 * @param {number} height
 * @param {number} numFrames
 * @param {number} maxTokens
 */
export function frameSize(width, height, numFrames, maxTokens) {
  const perPair = maxTokens / Math.ceil(numFrames / 2);
  const scale = Math.min(1, Math.sqrt((perPair * GRID * GRID) / (width * height)));
  const side = (/** @type {number} */ pixels) => Math.max(1, Math.floor((pixels * scale) / GRID)) * GRID;
  return { width: side(width), height: side(height) };
}

/**
 * @param {File} file
 * @param {{ fps: number, maxFrames: number, maxTokens: number, onprogress: (done: number, all: number) => void, signal: AbortSignal }} options
 * @returns {Promise<Clip>}
 * @throws {Error} in words for the reader
 */
export async function sampleClip(file, { fps, maxFrames, maxTokens, onprogress, signal }) {
  const video = document.createElement('video');
  video.muted = true;
  video.preload = 'auto';
  const url = URL.createObjectURL(file);
  try {
    video.src = url;
    await event(video, 'loadeddata');
    if (!Number.isFinite(video.duration)) {
      // Recordings of browsers do not say how long they are until one looks at their end.
      video.currentTime = Number.MAX_SAFE_INTEGER;
      await event(video, 'seeked');
    }
    const duration = Number.isFinite(video.duration) ? video.duration : video.currentTime;
    if (!(duration > 0) || video.videoWidth === 0) throw new Error('the file has no pictures');
    const count = Math.min(maxFrames, Math.max(2, Math.floor(duration * fps) + 1));
    const rate = Math.min(fps, (count - 1) / duration);
    const size = frameSize(video.videoWidth, video.videoHeight, count, maxTokens);
    /** @type {Clip} */
    const clip = { frames: [], times: [], fps: rate, ...size };
    for (let i = 0; i < count; i += 1) {
      signal.throwIfAborted();
      const time = Math.min(i / rate, duration - 0.001);
      const seeked = event(video, 'seeked');
      video.currentTime = time;
      await seeked;
      clip.frames.push(drawn(video, video.videoWidth, video.videoHeight, size));
      clip.times.push(time);
      onprogress(i + 1, count);
    }
    return clip;
  } finally {
    video.removeAttribute('src');
    video.load();
    URL.revokeObjectURL(url);
  }
}
