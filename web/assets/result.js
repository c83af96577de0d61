// One run as the page shows it: the answers, the facts about it, the bytes of it, and the code to repeat it.
import { answersOf, derived, extrasOf, tokensOf, topShare } from './answers.js';
import { asCurl, asJavaScript, asPython } from './code.js';
import { announce, button, fill, h, icon, segments } from './dom.js';
import { HERE } from './engine.js';
import { asText, at, parseJson, writeJson } from './json.js';

/** @typedef {import('./answers.js').Answer} Answer */
/** @typedef {import('./answers.js').Share} Share */
/** @typedef {import('./answers.js').Figure} Figure */
/** @typedef {import('./history.js').Run} Run */

const MAX_BARS = 14; // more options than that show their likeliest first
const NOT_SAID = 'worked out by this page, not said by the engine';

/** @param {Figure} figure @param {string} [suffix] */
export const figure = (figure, suffix = '') =>
  figure.isDerived
    ? h(
        'span',
        { class: 'number is-derived', title: NOT_SAID },
        figure.text + suffix,
        h('span', { class: 'hidden' }, ' (worked out here)'),
      )
    : h('span', { class: 'number' }, figure.text + suffix);

/** @param {string} text */
const derivedText = (text) =>
  h('span', { class: 'is-derived', title: NOT_SAID }, text, h('span', { class: 'hidden' }, ' (worked out here)'));

/**
 * What an answer comes to, marked where this page worked it out.
 * @param {Answer} answer
 */
export const verdictOf = (answer) => (answer.isVerdictDerived ? derivedText(answer.verdict) : answer.verdict);

/**
 * An answer in a few words.
 * @param {Answer} answer
 */
export function briefly(answer) {
  const top = topShare(answer);
  return h('span', {}, `${answer.id} `, h('strong', {}, verdictOf(answer)), ' ', top && figure(top.probability));
}

/** The key to the two kinds of figures. */
export const saidLegend = () =>
  h(
    'p',
    { class: 'remark said-legend' },
    h('span', { class: 'number' }, '0.9'),
    ' as the engine said it · ',
    h('span', { class: 'number is-derived' }, '0.9'),
    ' worked out or measured by this page',
  );

/**
 * @param {Share} share
 * @param {Share | undefined} before the same option of the run that this one is compared with
 * @param {boolean} isComparison
 */
function barOf(share, before, isComparison) {
  const track = (/** @type {Share} */ one, /** @type {string} */ kind) => {
    const bar = h('span', { class: `fill ${kind}${one.probability.isDerived ? ' is-derived' : ''}` });
    bar.style.setProperty('--share', String(Math.min(1, Math.max(0, one.probability.value))));
    return h('span', { class: 'track', 'aria-hidden': 'true' }, bar);
  };
  const change = before && derived(share.probability.value - before.probability.value);
  if (change && !change.text.startsWith('-')) change.text = `+${change.text}`;
  return h(
    'li',
    { class: `bar${share.isTop ? ' is-top' : ''}` },
    h('span', { class: 'name' }, share.label, share.legend ? h('span', { class: 'legend' }, ` ${share.legend}`) : null),
    h('span', { class: 'tracks' }, before ? track(before, 'is-before') : null, track(share, 'is-now')),
    h(
      'span',
      { class: 'values' },
      before
        ? h('span', { class: 'before' }, h('span', { class: 'hidden' }, 'before '), figure(before.probability))
        : null,
      figure(share.probability),
      isComparison ? h('span', { class: 'change' }, change ? figure(change) : '') : null,
    ),
  );
}

/**
 * In the engine's order; of many options the likeliest, until one asks for all.
 * @param {Answer} answer
 * @param {Answer} [before]
 */
function barList(answer, before) {
  const bars = (/** @type {Share[]} */ shares) =>
    shares.map((share) =>
      barOf(
        share,
        before?.shares.find((s) => s.label === share.label),
        before !== undefined,
      ),
    );
  const list = h('ul', { class: before ? 'bars is-comparison' : 'bars' });
  const { shares } = answer;
  if (shares.length <= MAX_BARS) {
    list.append(...bars(shares));
    return list;
  }
  const likeliest = [...shares].sort((a, b) => b.probability.value - a.probability.value).slice(0, MAX_BARS - 2);
  const showAll = () => fill(list, ...bars(shares));
  const text = `The ${likeliest.length} likeliest. Show all ${shares.length} in their order`;
  list.append(...bars(likeliest), h('li', { class: 'more' }, button(text, showAll, { class: 'link' })));
  return list;
}

/**
 * @param {Answer} answer
 * @param {Answer} [before]
 */
export function answerCard(answer, before) {
  const comparable = before && before.type === answer.type ? before : undefined;
  const hasTurned = comparable !== undefined && comparable.verdict !== answer.verdict;
  const facts = [
    answer.score && h('span', {}, 'score ', figure(answer.score), ` of 0 to ${answer.maxScore}`),
    answer.confidence && h('span', {}, 'confidence ', figure(answer.confidence)),
  ];
  return h(
    'article',
    { class: 'card answer' },
    h(
      'header',
      {},
      h('h3', {}, answer.id),
      h(
        'p',
        { class: 'verdict' },
        verdictOf(answer),
        hasTurned && h('span', { class: 'was' }, ' was ', verdictOf(comparable)),
      ),
      h('p', { class: 'facts' }, ...facts),
    ),
    barList(answer, comparable),
  );
}

/**
 * Answers that are drawn again and again, as a camera's are: where the same options come back the bars move.
 */
export function answersPanel() {
  const element = h('div', { class: 'answers' });
  let signature = '';
  return {
    element,
    /** @param {Answer[]} answers */
    show(answers) {
      const next = JSON.stringify(answers.map((a) => [a.id, a.type, a.shares.map((s) => s.label)]));
      const cards = answers.map((answer) => answerCard(answer));
      if (next === signature) {
        const fills = [...element.querySelectorAll('.fill')];
        cards.forEach((card) =>
          card.querySelectorAll('.fill').forEach((fresh) => {
            const old = /** @type {HTMLElement} */ (fills.shift());
            const share = /** @type {HTMLElement} */ (fresh).style.getPropertyValue('--share');
            fresh.replaceWith(old);
            requestAnimationFrame(() => old.style.setProperty('--share', share));
          }),
        );
      }
      signature = next;
      fill(element, ...cards);
    },
    clear() {
      signature = '';
      fill(element);
    },
  };
}

/** @param {number} ms */
export const duration = (ms) =>
  ms < 10 ? `${ms.toFixed(1)} ms` : ms < 10_000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;

/**
 * @param {Run} run
 * @param {'before' | 'now'} [side] of a comparison
 */
export function factsOf(run, side) {
  const body = parseJson(run.response);
  const fact = (/** @type {string} */ name, /** @type {Node | string | null | undefined} */ value) =>
    value ? h('div', {}, h('dt', {}, name), h('dd', {}, value)) : null;
  const said = (/** @type {string} */ text) => h('span', { class: 'number' }, text);
  const tokens = tokensOf(body);
  const latency = { text: duration(run.latencyMs), value: run.latencyMs, isDerived: true };
  return h(
    'dl',
    { class: 'run-facts' },
    side && h('div', { class: 'side' }, h('dt', {}, side), h('dd', {}, h('span', { class: `swatch is-${side}` }))),
    fact('Model', asText(at(body, 'model'))),
    fact('Input tokens', tokens && figure(tokens)),
    fact('Round trip', figure(latency)),
    fact('Confidence is', new URLSearchParams(run.query).get('confidence')),
    fact('Engine’s timing', run.timing && said(run.timing)),
    ...extrasOf(body).map(([name, value]) => fact(name, said(value))),
  );
}

/** Base64 that no one reads. @param {string} text */
const elided = (text) => text.replace(/(data:[a-z]+\/[a-z0-9.+-]+;base64,[A-Za-z0-9+/]{24})[A-Za-z0-9+/=]+/g, '$1…');

/**
 * Text with a button that copies all of it.
 * @param {string} text
 * @param {string} what
 */
function copyable(text, what) {
  const copy = button(
    'Copy',
    async () => {
      try {
        await navigator.clipboard.writeText(text);
        announce(`${what} copied`);
        fill(copy, icon('check'), 'Copied');
      } catch {
        pre.textContent = text;
        getSelection()?.selectAllChildren(pre);
        announce('Copying is not allowed here; the text is selected');
      }
    },
    { icon: 'copy', class: 'copy' },
  );
  const pre = h('pre', { tabindex: '0', 'aria-label': what }, elided(text));
  return h('div', { class: 'copyable' }, copy, pre);
}

/** @param {string} text JSON */
const tidy = (text) => writeJson(parseJson(text), 2);

/**
 * @param {Run} run
 * @param {{ before?: Run, actions?: (Node | null)[], needsKey: boolean }} options before: what it is compared with
 */
export function runPanel(run, { before, actions = [], needsKey }) {
  const beforeAnswers = before ? answersOf(parseJson(before.response)) : [];
  const cards = answersOf(parseJson(run.response)).map((answer) => {
    const earlier = beforeAnswers.find((one) => one.id === answer.id);
    return answerCard(answer, earlier);
  });
  const call = { address: run.engine || HERE, request: tidy(run.request), query: run.query, needsKey };
  const requestId = h(
    'p',
    { class: 'remark' },
    'Request id ',
    h('code', {}, run.requestId),
    ', as in the engine’s log',
  );
  const panel = h('div', { class: 'panel' });
  /** @type {Record<string, () => Node>} */
  const views = {
    answers: () => h('div', {}, h('div', { class: 'answers' }, ...cards), saidLegend()),
    raw: () =>
      h(
        'div',
        {},
        h('h3', { class: 'label' }, 'The answer, byte for byte'),
        copyable(run.response, 'Answer'),
        h('h3', { class: 'label' }, 'The request'),
        copyable(tidy(run.request), 'Request'),
        run.requestId !== '' && requestId,
      ),
    curl: () => copyable(asCurl(call), 'curl command'),
    js: () => copyable(asJavaScript(call), 'JavaScript'),
    python: () => copyable(asPython(call), 'Python'),
  };
  const tabs = segments(
    'What to show of this run',
    [
      ['answers', 'Answers'],
      ['raw', 'As sent'],
      ['curl', 'curl'],
      ['js', 'JavaScript'],
      ['python', 'Python'],
    ],
    'answers',
    (key) => fill(panel, views[key]()),
  );
  fill(panel, views.answers());
  return h(
    'div',
    { class: 'run' },
    h('h2', { class: 'hidden' }, 'Answers'),
    before ? factsOf(before, 'before') : null,
    factsOf(run, before && 'now'),
    h('div', { class: 'row between wrap tools' }, tabs.element, h('div', { class: 'row' }, ...actions)),
    panel,
  );
}
