// See: questions about pictures, a camera, a screen, or a video file; once, or again and again.
import { answersOf } from './answers.js';
import { requestText, runRequest } from './ask_view.js';
import { announce, button, field, fill, h, icon, reveal } from './dom.js';
import { newName } from './engine.js';
import { addRun } from './history.js';
import { asText, at, parseJson } from './json.js';
import { notice } from './notice.js';
import { Problem } from './problem.js';
import { questionEditor } from './question_editor.js';
import { answersPanel, briefly, duration, factsOf, figure, runPanel, saidLegend } from './result.js';
import { numberSelect, seenPanel } from './seen.js';
import { keyOf } from './settings.js';
import { SEE_TEMPLATES } from './templates.js';
import { trend } from './trend.js';

/** @typedef {import('./history.js').Run} Run */

const PAUSE_AFTER_FAILURE_MS = 2000; // where the engine names no time

/** @type {[number, string][]} */
const RATES = [
  [0.5, 'every 2 s'],
  [1, 'once a second'],
  [2, '2 a second'],
  [5, '5 a second'],
  [0, 'as fast as it answers'],
];

/** A name for what requests about the same pictures share, so that an engine may keep what it has seen. */
const newCacheKey = () => `web-${newName()}`;

/**
 * @param {{ model: () => string }} engine
 */
export function seeView({ model }) {
  /** @type {AbortController | null} */
  let controller = null;
  let isLive = false;
  let cacheKey = newCacheKey();
  /** Runs about what is seen now. @type {Run[]} */
  let asked = [];

  const rate = numberSelect(RATES, 1);
  const seen = seenPanel({ onchange: renew, onend: () => stopLive(), streamControls: [field('Live', rate)] });
  const questions = questionEditor({ label: 'Questions' });
  questions.set(SEE_TEMPLATES[0].questions);
  const context = h('textarea', { rows: 2, placeholder: 'optional: what the model should know besides' });
  const output = h('section', { class: 'output', 'aria-label': 'Answers', tabindex: '-1' });
  const askButton = button('Ask', () => void (controller && !isLive ? controller.abort() : ask()), {
    class: 'primary ask',
  });
  const liveButton = button('Ask live', () => void (isLive ? stopLive() : live()), { icon: 'play' });
  const templates = SEE_TEMPLATES.map((template) => {
    const take = () => {
      questions.set(template.questions);
      announce(`Template ${template.name}`);
    };
    return button(template.name, take, { class: 'chip' });
  });

  /** Something else is seen: nothing asked so far is about it. */
  function renew() {
    cacheKey = newCacheKey();
    asked = [];
    askButton.disabled = seen.isEmpty();
    liveButton.hidden = !seen.isStream();
    liveButton.disabled = seen.isEmpty();
  }

  /** @returns {string | null} null when the questions are not ready, which the page then says */
  function request() {
    const flaws = questions.flaws();
    if (flaws.length === 0) {
      return requestText([['state', context.value], ...seen.members(), ['questions', questions.value()]], model());
    }
    questions.tell();
    fill(output, notice(new Problem('This cannot be asked yet', { flaws, status: 422 })));
    return null;
  }

  /** @param {Run} run */
  function showRun(run) {
    const others = asked.filter((one) => one !== run);
    const rows = others.map((one) => {
      const verdicts = answersOf(parseJson(one.response)).map(briefly);
      const latency = { text: duration(one.latencyMs), value: one.latencyMs, isDerived: true };
      return h(
        'li',
        {},
        h('button', { type: 'button', class: 'summary', onclick: () => showRun(one) }, ...verdicts),
        figure(latency),
      );
    });
    fill(
      output,
      runPanel(run, { needsKey: keyOf(run.engine) !== '' }),
      rows.length > 0 &&
        h('div', { class: 'asked' }, h('h2', { class: 'label' }, 'Asked before about the same'), h('ul', {}, ...rows)),
    );
  }

  async function ask() {
    if (askButton.disabled) return;
    stopLive();
    if (seen.isStream()) renew(); // each frame is another picture
    const text = request();
    if (text === null) return;
    controller = new AbortController();
    const { signal } = controller;
    fill(askButton, 'Stop');
    output.setAttribute('aria-busy', 'true');
    try {
      const run = await runRequest(text, 'see', { signal, cacheKey });
      asked.unshift(run);
      showRun(run);
      announce('Answered');
    } catch (error) {
      if (!signal.aborted) fill(output, notice(error, { onretry: () => void ask() }));
    } finally {
      controller = null;
      fill(askButton, 'Ask');
      output.removeAttribute('aria-busy');
      reveal(output);
    }
  }

  function stopLive() {
    if (!isLive) return;
    isLive = false;
    controller?.abort();
    fill(liveButton, icon('play'), 'Ask live');
  }

  /** The panel of answers that come again and again. */
  function livePanel() {
    /** @type {Run | null} */
    let last = null;
    let count = 0;
    const began = performance.now();
    const answers = answersPanel();
    const trends = trend();
    const facts = h('div');
    const warning = h('div');
    const keepLast = async () => {
      if (!last) return;
      await addRun(last);
      announce('Kept in the history');
    };
    const keep = button('Keep this frame', () => void keepLast(), { icon: 'pin', class: 'link' });
    const head = h('div', { class: 'row between wrap' }, facts, keep);
    fill(output, head, warning, answers.element, trends.element, saidLegend());
    return {
      /** @param {Run} run */
      add(run) {
        last = run;
        count += 1;
        const next = answersOf(parseJson(run.response));
        answers.show(next);
        trends.add(next);
        const perSecond = (count * 1000) / (performance.now() - began);
        const speed = h('span', { class: 'number is-derived' }, perSecond.toFixed(1));
        fill(facts, factsOf(run), h('p', { class: 'remark' }, speed, ` answers a second, ${count} so far`));
        fill(warning);
      },
      /** @param {unknown} error */
      fail: (error) => fill(warning, notice(error)),
    };
  }

  /** One request after the other, never two at once. */
  async function live() {
    if (request() === null) return;
    isLive = true;
    fill(liveButton, icon('pause'), 'Stop');
    const panel = livePanel();
    while (isLive) {
      const began = performance.now();
      const text = request();
      if (text === null) break;
      const { signal } = (controller = new AbortController());
      let pause = 0;
      try {
        panel.add(await runRequest(text, 'see', { signal, keeps: false }));
      } catch (error) {
        if (signal.aborted) break;
        panel.fail(error);
        if (!(error instanceof Problem) || !error.isTransient) break;
        pause = error.retryAfterMs ?? PAUSE_AFTER_FAILURE_MS;
      }
      const period = Number(rate.value) > 0 ? 1000 / Number(rate.value) : 0;
      const wait = Math.max(pause, period - (performance.now() - began));
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
    stopLive();
    controller = null;
  }

  const element = h(
    'div',
    { class: 'view see-view' },
    h(
      'section',
      { class: 'input', 'aria-label': 'What is seen, and questions' },
      h('h1', { class: 'hidden' }, 'See'),
      seen.element,
      h('div', { class: 'row wrap templates', role: 'group', 'aria-label': 'Templates' }, ...templates),
      questions.element,
      field('Context', context),
      h('div', { class: 'row submit' }, askButton, liveButton),
    ),
    output,
  );
  element.addEventListener('keydown', (event) => {
    if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    void ask();
  });
  seen.listen(element);
  const invitation = [
    h('p', { class: 'title' }, 'Ask what a picture shows.'),
    h('p', {}, 'Pictures, frames and recordings go to the engine that you use, and nowhere else.'),
  ];
  fill(output, h('div', { class: 'empty' }, ...invitation));
  renew();

  return {
    element,
    hide: seen.stop,
    /** @param {Run} run */
    async restore(run) {
      const body = parseJson(run.request);
      context.value = asText(at(body, 'state')) ?? '';
      questions.setWire(at(body, 'questions') ?? null);
      const images = at(body, 'images');
      await seen.setPictures(Array.isArray(images) ? images.filter((url) => typeof url === 'string') : []);
      asked = [run];
      showRun(run);
    },
  };
}
