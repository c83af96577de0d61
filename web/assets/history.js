// Earlier runs, kept in this browser alone, and as files for others.
import { at, asText, parseJson } from './json.js';
import { originOf } from './settings.js';

/**
 * @typedef {object} Run
 * @property {string} id
 * @property {number} when milliseconds since 1970
 * @property {'ask' | 'see'} view where it was made
 * @property {string} engine its origin; '' for the page's own server
 * @property {string} query of the request's address
 * @property {string} request as sent
 * @property {string} response as it came
 * @property {number} latencyMs
 * @property {string} requestId
 * @property {string} timing
 */

const MAX_RUNS = 500;
const MAX_BYTES = 64 << 20; // of requests and answers; pictures are most of it
const FORMAT = 'clef-runs';

/** @type {Promise<IDBDatabase> | null} */
let opened = null;
/** Where there is no database: until the page is closed. @type {Map<string, Run>} */
const spare = new Map();

/** @template T @param {IDBRequest<T>} request @returns {Promise<T>} */
const done = (request) =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });

function open() {
  opened ??= new Promise((resolve, reject) => {
    const request = indexedDB.open('clef', 1);
    request.onupgradeneeded = () => request.result.createObjectStore('runs', { keyPath: 'id' });
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
  return opened;
}

/**
 * @template T
 * @param {IDBTransactionMode} mode
 * @param {(store: IDBObjectStore) => IDBRequest<T>} work
 * @param {() => T} otherwise without a database
 */
async function inStore(mode, work, otherwise) {
  let database;
  try {
    database = await open();
  } catch {
    return otherwise();
  }
  return done(work(database.transaction('runs', mode).objectStore('runs')));
}

/** Newest first. @returns {Promise<Run[]>} */
export async function allRuns() {
  const runs = await inStore(
    'readonly',
    (store) => store.getAll(),
    () => [...spare.values()],
  );
  return runs.sort((a, b) => b.when - a.when);
}

/** @param {Run} run */
export async function addRun(run) {
  await inStore(
    'readwrite',
    (store) => store.put(run),
    () => {
      spare.set(run.id, run);
      return run.id;
    },
  );
  let bytes = 0;
  const runs = await allRuns();
  const old = runs.filter((one, i) => (bytes += one.request.length + one.response.length) > MAX_BYTES || i >= MAX_RUNS);
  for (const one of old) if (one.id !== run.id) await removeRun(one.id);
}

/** @param {string} id */
export const removeRun = (id) =>
  inStore(
    'readwrite',
    (store) => store.delete(id),
    () => {
      spare.delete(id);
      return undefined;
    },
  );

export const clearRuns = () =>
  inStore(
    'readwrite',
    (store) => store.clear(),
    () => {
      spare.clear();
      return undefined;
    },
  );

/** @param {Run} run @returns {string} the state's beginning */
export function titleOf(run) {
  const body = parseJson(run.request);
  const state = at(body, 'state');
  const text = typeof state === 'string' ? state : run.request.slice(run.request.indexOf('"state":') + 8);
  const questions = at(body, 'questions');
  const names = questions instanceof Map ? [...questions.keys()].join(', ') : '';
  return text.trim().slice(0, 160) || names;
}

/** @param {Run} run */
export function numPictures(run) {
  const body = parseJson(run.request);
  const images = at(body, 'images');
  const videos = at(body, 'videos');
  return (Array.isArray(images) ? images.length : 0) + (Array.isArray(videos) ? videos.length : 0);
}

/** @param {Run[]} runs */
export const toFile = (runs) =>
  new Blob([JSON.stringify({ format: FORMAT, version: 1, runs }, null, 1)], { type: 'application/json' });

/**
 * @param {string} request
 * @param {string} response
 */
function isExchange(request, response) {
  try {
    return at(parseJson(request), 'questions') instanceof Map && asText(at(parseJson(response), 'model')) !== undefined;
  } catch {
    return false;
  }
}

/**
 * The runs of a file.
 * @param {string} text
 * @returns {Run[]}
 * @throws {Error} in words for the reader
 */
export function fromFile(text) {
  let file;
  try {
    file = JSON.parse(text);
  } catch {
    throw new Error('The file is no JSON');
  }
  if (file?.format !== FORMAT || file.version !== 1 || !Array.isArray(file.runs))
    throw new Error('The file holds no runs of this page');
  return file.runs.map((/** @type {Record<string, unknown>} */ run, /** @type {number} */ i) => {
    const { id, when, view, engine, query, request, response, latencyMs, requestId, timing } = run ?? {};
    const texts = [id, engine, query, request, response, requestId, timing];
    const isRun =
      texts.every((one) => typeof one === 'string') &&
      typeof when === 'number' &&
      typeof latencyMs === 'number' &&
      (view === 'ask' || view === 'see');
    if (!isRun) throw new Error(`Run ${i + 1} of the file is incomplete`);
    // All of it may come back as code to copy, so nothing unexpected gets in.
    const isKnown = engine === '' || originOf(String(engine)) === engine;
    if (!isKnown || !/^(\?confidence=[a-z]+)?$/.test(String(query)) || !isExchange(String(request), String(response))) {
      throw new Error(`Run ${i + 1} of the file holds no request and answer`);
    }
    return /** @type {Run} */ ({ id, when, view, engine, query, request, response, latencyMs, requestId, timing });
  });
}
