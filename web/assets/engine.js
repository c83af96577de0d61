// Requests to the engine, and what comes back.
import { asText, at, parseJson } from './json.js';
import { Problem, problemOf, unreachable } from './problem.js';
import { keyOf, settings } from './settings.js';

/** @typedef {import('./json.js').Value} Value */

/**
 * @typedef {object} Reply
 * @property {string} text the answer as it came, byte for byte
 * @property {Value} body
 * @property {number} latencyMs from sending to the last byte, measured here
 * @property {string} requestId
 * @property {string} timing the Server-Timing field, if the engine sent one
 */

/** The server that this page came from, below the path that a proxy may give it. */
export const HERE = location.origin + new URL('.', location.href).pathname.replace(/\/$/, '');

const url = (/** @type {string} */ path) => (settings.engine || HERE) + path;

/** A name that no one else has. */
export const newName = () =>
  Array.from(crypto.getRandomValues(new Uint8Array(10)), (byte) => byte.toString(16).padStart(2, '0')).join('');

/** @param {Record<string, string>} [fields] */
function fields(fields = {}) {
  const key = keyOf(settings.engine);
  return key === '' ? fields : { ...fields, Authorization: `Bearer ${key}` };
}

/**
 * @param {string} path
 * @param {RequestInit} init
 */
async function send(path, init) {
  try {
    return await fetch(url(path), { ...init, credentials: 'omit', cache: 'no-store' });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw unreachable(settings.engine);
  }
}

/** @param {Response} response */
function retryAfterMs(response) {
  const ms = response.headers.get('retry-after-ms');
  const seconds = response.headers.get('retry-after');
  const wait = ms !== null ? Number(ms) : seconds !== null ? Number(seconds) * 1000 : NaN;
  return Number.isFinite(wait) ? wait : null;
}

/** @param {Response} response */
async function failure(response) {
  const text = await response.text().catch(() => '');
  /** @type {Value | undefined} */
  let body;
  try {
    body = parseJson(text);
  } catch {
    body = undefined; // a proxy's page, perhaps
  }
  return problemOf(response.status, body, {
    retryAfterMs: retryAfterMs(response),
    requestId: response.headers.get('x-typesafe-request-id') ?? '',
  });
}

/** The query that settings ask for. */
const query = () => (settings.confidence === '' ? '' : `?confidence=${encodeURIComponent(settings.confidence)}`);

/**
 * One request, one answer.
 * @param {string} request as JSON
 * @param {{ signal?: AbortSignal, cacheKey?: string }} [options] cacheKey: what requests that begin alike share
 * @returns {Promise<Reply>}
 * @throws {Problem}
 */
export async function ask(request, { signal, cacheKey } = {}) {
  const headers = fields({
    'Content-Type': 'application/json',
    ...(cacheKey ? { 'X-Clef-Prefix-Cache': cacheKey } : {}),
  });
  const began = performance.now();
  const response = await send(`/v1/systemone${query()}`, { method: 'POST', headers, body: request, signal });
  if (!response.ok) throw await failure(response);
  const text = await bodyOf(response, signal);
  const latencyMs = performance.now() - began;
  let body;
  try {
    body = parseJson(text);
  } catch (error) {
    throw new Problem('The answer is no JSON', {
      said: text.slice(0, 200),
      advice: `Does a Clef engine run there? ${error}`,
    });
  }
  return {
    text,
    body,
    latencyMs,
    requestId: response.headers.get('x-typesafe-request-id') ?? '',
    timing: response.headers.get('server-timing') ?? '',
  };
}

/**
 * @param {Response} response
 * @param {AbortSignal} [signal]
 */
async function bodyOf(response, signal) {
  try {
    return await response.text();
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem('The answer broke off', { advice: 'The connection ended before all of it had come. Try again.' });
  }
}

/**
 * Several requests, a line each; calls back with each answer as it comes.
 * @param {string[]} requests
 * @param {(index: number, line: Value) => void} onanswer
 * @param {AbortSignal} signal
 * @throws {Problem} when the batch as a whole was refused, or ended early
 */
export async function askBatch(requests, onanswer, signal) {
  const response = await send(`/v1/systemone/batch${query()}`, {
    method: 'POST',
    headers: fields({ 'Content-Type': 'application/x-ndjson' }),
    body: requests.map((request) => request + '\n').join(''),
    signal,
  });
  if (!response.ok) throw await failure(response);
  const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
  const decoder = new TextDecoder();
  let rest = '';
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const lines = (rest + decoder.decode(value, { stream: true })).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) {
        if (line === '') continue;
        const answer = parseJson(line);
        const index = Number(writeIndex(at(answer, 'index')));
        if (Number.isInteger(index)) onanswer(index, answer);
      }
    }
  } catch (error) {
    if (signal.aborted || error instanceof Problem) throw error;
    throw new Problem('The answers broke off', { advice: 'The connection ended before all of them had come.' });
  }
}

/** @param {Value | undefined} index */
const writeIndex = (index) => (index instanceof Object && 'text' in index ? index.text : NaN);

/**
 * @typedef {object} Health
 * @property {'ok' | 'loading' | 'failing' | 'down'} status
 * @property {string} model
 * @property {string} device
 * @property {string} reason
 */

/** @returns {Promise<Health>} */
export async function health() {
  try {
    const response = await send('/health', { method: 'GET' });
    const body = parseJson(await response.text());
    const status = asText(at(body, 'status'));
    return {
      status: status === 'ok' || status === 'loading' || status === 'failing' ? status : response.ok ? 'ok' : 'failing',
      model: asText(at(body, 'model')) ?? '',
      device: asText(at(body, 'device')) ?? '',
      reason: asText(at(body, 'reason')) ?? '',
    };
  } catch {
    return { status: 'down', model: '', device: '', reason: '' };
  }
}

/**
 * The names that `model` may have.
 * @returns {Promise<string[]>}
 * @throws {Problem}
 */
export async function models() {
  const response = await send('/v1/models', { method: 'GET', headers: fields() });
  if (!response.ok) throw await failure(response);
  const listed = at(parseJson(await bodyOf(response)), 'models');
  return Array.isArray(listed) ? listed.map((one) => asText(at(one, 'name')) ?? '').filter((name) => name !== '') : [];
}
