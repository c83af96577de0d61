// The engine's answers as the page shows them. Each figure carries its digits as the engine wrote them, or is marked as
// worked out here: what a reader sees without that mark, the engine said.
import { asText, at, Num, writeJson } from './json.js';

/** @typedef {import('./json.js').Value} Value */

/**
 * @typedef {object} Figure
 * @property {string} text the digits as written
 * @property {number} value
 * @property {boolean} isDerived worked out by this page
 */

/**
 * One option and its probability.
 * @typedef {object} Share
 * @property {string} label as the request has it; of a score the level's number
 * @property {string} legend what stands beside it: a level's text
 * @property {Figure} probability
 * @property {boolean} isTop
 */

/**
 * @typedef {object} Answer
 * @property {string} id
 * @property {'noul' | 'choice' | 'score' | 'unknown'} type
 * @property {string} verdict what the answer comes to, in a word
 * @property {boolean} isVerdictDerived
 * @property {Figure | null} score the mean level
 * @property {number} maxScore
 * @property {Figure | null} confidence
 * @property {Share[]} shares in the engine's order
 */

/** @param {Value | undefined} number @returns {Figure | null} */
const said = (number) => (number instanceof Num ? { text: number.text, value: number.value, isDerived: false } : null);

/**
 * With the engine's number of decimals.
 * @param {number} value
 * @returns {Figure}
 */
export const derived = (value) => ({ text: value.toFixed(4), value, isDerived: true });

/**
 * The first of the largest, as the engine takes it.
 * @param {Share[]} shares
 */
function markTop(shares) {
  const top = shares.reduce(
    (best, share, i) => (share.probability.value > (shares[best]?.probability.value ?? -1) ? i : best),
    0,
  );
  shares.forEach((share, i) => (share.isTop = i === top));
  return shares[top];
}

/**
 * @param {Value | undefined} map option to number
 * @param {(label: string) => string} legend
 * @returns {Share[]}
 */
function sharesOf(map, legend) {
  if (!(map instanceof Map)) return [];
  return [...map].flatMap(([label, number]) => {
    const probability = said(number);
    return probability ? [{ label, legend: legend(label), probability, isTop: false }] : [];
  });
}

/** @param {Value | undefined} value */
const plain = (value) => (typeof value === 'string' ? value : value === undefined ? '' : writeJson(value));

/**
 * @param {string} id
 * @param {Value} answer
 * @returns {Answer}
 */
function answerOf(id, answer) {
  const type = asText(at(answer, 'type'));
  const confidence = said(at(answer, 'confidence'));
  const empty = { id, score: null, maxScore: 0, confidence, verdict: '', isVerdictDerived: false, shares: [] };
  if (type === 'noul') {
    const yes = said(at(answer, 'noul'));
    if (!yes) return { ...empty, type: 'unknown' };
    const shares = [
      { label: 'true', legend: '', probability: yes, isTop: yes.value >= 0.5 },
      { label: 'false', legend: '', probability: derived(1 - yes.value), isTop: yes.value < 0.5 },
    ];
    return { ...empty, type, verdict: yes.value >= 0.5 ? 'Yes' : 'No', isVerdictDerived: true, shares };
  }
  if (type === 'choice') {
    const shares = sharesOf(at(answer, 'probabilities'), () => '');
    const verdict = plain(at(answer, 'choice'));
    for (const share of shares) share.isTop = share.label === verdict;
    return { ...empty, type, verdict, shares };
  }
  if (type === 'score') {
    const shares = sharesOf(at(answer, 'probabilities'), (label) => plain(at(answer, 'legend', label)));
    const top = markTop(shares);
    return {
      ...empty,
      type,
      verdict: top ? top.legend || top.label : '',
      isVerdictDerived: true,
      score: said(at(answer, 'score')),
      maxScore: shares.length - 1,
      shares,
    };
  }
  return { ...empty, type: 'unknown', verdict: writeJson(answer) };
}

/**
 * @param {Value} body of a response
 * @returns {Answer[]}
 */
export function answersOf(body) {
  const answers = at(body, 'answers');
  return answers instanceof Map ? [...answers].map(([id, answer]) => answerOf(id, answer)) : [];
}

/**
 * What else the engine said: its own members of the response.
 * @param {Value} body
 * @returns {[string, string][]}
 */
export function extrasOf(body) {
  if (!(body instanceof Map)) return [];
  return [...body].filter(([name]) => name.startsWith('x_')).map(([name, value]) => [name, writeJson(value)]);
}

/** @param {Value} body */
export const tokensOf = (body) => said(at(body, 'usage', 'input_tokens'));

/** The largest probability of an answer. @param {Answer} answer */
export const topShare = (answer) => answer.shares.find((share) => share.isTop) ?? null;
