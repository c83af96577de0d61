// What can go wrong between this page and an engine, in plain words.
import { at, Num } from './json.js';

/** @typedef {import('./json.js').Value} Value */
/** @typedef {import('./questions.js').Flaw} Flaw */

export class Problem extends Error {
  /**
   * @param {string} title what happened
   * @param {object} [more]
   * @param {string} [more.advice] what to do about it
   * @param {Flaw[]} [more.flaws] fields of the request that the engine refused
   * @param {number} [more.status] of the answer; 0: there was none
   * @param {number | null} [more.retryAfterMs] when the engine says that it is worth trying again
   * @param {'settings' | null} [more.place] where it is mended
   * @param {string} [more.said] the engine's own words
   * @param {string} [more.requestId]
   */
  constructor(
    title,
    { advice = '', flaws = [], status = 0, retryAfterMs = null, place = null, said = '', requestId = '' } = {},
  ) {
    super(title);
    this.title = title;
    this.advice = advice;
    this.flaws = flaws;
    this.status = status;
    this.retryAfterMs = retryAfterMs;
    this.place = place;
    this.said = said;
    this.requestId = requestId;
  }

  /** Worth the same request again, later. */
  get isTransient() {
    return (
      this.status === 0 || this.status === 429 || this.status === 503 || this.status === 504 || this.status === 529
    );
  }
}

/**
 * `questions.a.criteria` of `["body", "questions", "a", "criteria"]`.
 * @param {Value | undefined} loc
 */
function fieldOf(loc) {
  if (!Array.isArray(loc)) return '';
  const steps = loc.map((step) => (step instanceof Num ? step.text : String(step)));
  return (steps[0] === 'body' ? steps.slice(1) : steps).join('.');
}

/**
 * @param {Value | undefined} body of an error, as the engine or one line of a batch has it
 * @returns {Flaw[]}
 */
function flawsOf(body) {
  const detail = at(body, 'detail');
  if (!Array.isArray(detail)) return [];
  return detail.map((one) => ({ field: fieldOf(at(one, 'loc')), message: String(at(one, 'msg') ?? '') }));
}

/** @type {Record<number, [string, string]>} */
const BY_STATUS = {
  400: ['The engine could not read the request', ''],
  401: ['The engine does not take this key', 'Set the right API key in the settings.'],
  403: ['The engine does not let this page in', ''],
  404: ['The engine does not serve this model', 'Pick another one in the settings.'],
  408: ['The request took too long to arrive', 'Try again, or send smaller pictures.'],
  413: ['The request is too long for the engine', 'Shorten the state, ask fewer questions, or send smaller pictures.'],
  422: ['The engine refused the request', ''],
  429: ['The engine has too much to do', ''],
  500: ['The engine failed', 'Its log knows more. Try again, or try another request.'],
  503: ['The engine is not ready', 'It may still be loading its model.'],
  504: ['The engine did not answer in time', 'The work was dropped. Try again when it is less busy.'],
};

/**
 * The problem that an answer with an error status is.
 * @param {number} status
 * @param {Value | undefined} body
 * @param {{ retryAfterMs?: number | null, requestId?: string }} [fields]
 */
export function problemOf(status, body, fields = {}) {
  const said = String(at(body, 'message') ?? at(body, 'detail', 'message') ?? at(body, 'error', 'message') ?? '');
  let [title, advice] = BY_STATUS[status] ?? [`The engine answered with status ${status}`, ''];
  if (status === 401 && /is needed/.test(said))
    [title, advice] = ['The engine wants an API key', 'Set it in the settings.'];
  const place = status === 401 || status === 404 ? /** @type {const} */ ('settings') : null;
  return new Problem(title, { advice, flaws: flawsOf(body), status, said, place, ...fields });
}

/**
 * No answer came at all: fetch tells pages no more than that.
 * @param {string} engine its address; '' for the page's own
 */
export function unreachable(engine) {
  if (engine === '') {
    return new Problem('The engine does not answer', {
      advice: `Is clef-server still running at ${location.origin}?`,
    });
  }
  return new Problem(`No answer from ${engine}`, {
    advice: `Is an engine running there, and does it let pages of ${location.origin} in? clef-server does with --cors-origin ${location.origin}`,
    place: 'settings',
  });
}
