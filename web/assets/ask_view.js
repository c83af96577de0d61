// Ask: a state, questions about it, and the probability of every option.
import { announce, button, fill, h, icon, reveal } from './dom.js';
import { ask, newName } from './engine.js';
import { addRun } from './history.js';
import { asText, at, parseJson, writeJson } from './json.js';
import { notice } from './notice.js';
import { Problem } from './problem.js';
import { questionEditor } from './question_editor.js';
import { runPanel } from './result.js';
import { keyOf, settings } from './settings.js';
import { stateEditor } from './state_editor.js';
import { TEMPLATES } from './templates.js';

/** @typedef {import('./json.js').Value} Value */
/** @typedef {import('./history.js').Run} Run */

/**
 * A request as text, its members in the order that people write them.
 * @param {[string, Value][]} members beside the model
 * @param {string} model
 */
export const requestText = (members, model) => writeJson(new Map([['model', model], ...members]));

/**
 * Asks, and keeps the run.
 * @param {string} request
 * @param {'ask' | 'see'} view
 * @param {{ signal?: AbortSignal, cacheKey?: string, keeps?: boolean }} [options]
 * @returns {Promise<Run>}
 */
export async function runRequest(request, view, { keeps = true, ...options } = {}) {
  const reply = await ask(request, options);
  const run = {
    id: newName(),
    when: Date.now(),
    view,
    engine: settings.engine,
    query: settings.confidence === '' ? '' : `?confidence=${settings.confidence}`,
    request,
    response: reply.text,
    latencyMs: reply.latencyMs,
    requestId: reply.requestId,
    timing: reply.timing,
  };
  if (keeps) await addRun(run);
  return run;
}

/**
 * @param {{ model: () => string }} engine
 */
export function askView({ model }) {
  const state = stateEditor({
    label: 'State',
    placeholder: 'A ticket, a comment, an order: what the questions are about',
    rows: 10,
  });
  const questions = questionEditor({ label: 'Questions' });
  const output = h('section', { class: 'output', 'aria-label': 'Answers', tabindex: '-1' });
  /** @type {Run | null} */
  let latest = null;
  /** What the latest run is compared with. @type {Run | null} */
  let pinned = null;
  /** @type {AbortController | null} */
  let controller = null;

  const askButton = button('Ask', () => void run(), { class: 'primary ask' });
  const hint = h('span', { class: 'remark' }, /Mac|iPhone|iPad/.test(navigator.platform) ? '⌘ Enter' : 'Ctrl Enter');
  const templates = h(
    'div',
    { class: 'row wrap templates', role: 'group', 'aria-label': 'Templates' },
    ...TEMPLATES.map((template) =>
      button(
        template.name,
        () => {
          state.set(template.kind, template.state);
          questions.set(template.questions);
          announce(`Template ${template.name}`);
        },
        { class: 'chip' },
      ),
    ),
  );

  function show() {
    if (!latest) return;
    const run = latest;
    const isPinned = pinned === run;
    const letGo = () => {
      pinned = null;
      show();
    };
    const pin = () => {
      pinned = run;
      show();
      announce('The next run is compared with this one');
    };
    const pinThis = button('Compare with the next', pin, { icon: 'pin', class: 'link' });
    const pinnedRemark = h('p', { class: 'comparison' }, icon('pin'), 'The next run is compared with this one.');
    pinnedRemark.append(button('Let go', letGo, { class: 'link' }));
    fill(
      output,
      isPinned && pinnedRemark,
      runPanel(run, {
        before: pinned && !isPinned ? pinned : undefined,
        needsKey: keyOf(run.engine) !== '',
        actions: isPinned ? [] : [pinned && button('Stop comparing', letGo, { class: 'link' }), pinThis],
      }),
    );
  }

  async function run() {
    if (controller) {
      controller.abort();
      return;
    }
    const flaws = questions.flaws();
    const wrong = state.flaw();
    if (wrong) flaws.unshift({ field: 'state', message: wrong });
    if (flaws.length > 0) {
      questions.tell();
      fill(output, notice(new Problem('This cannot be asked yet', { flaws, status: 422 })));
      return;
    }
    const request = requestText(
      [
        ['state', state.value()],
        ['questions', questions.value()],
      ],
      model(),
    );
    controller = new AbortController();
    fill(askButton, 'Stop');
    output.setAttribute('aria-busy', 'true');
    try {
      latest = await runRequest(request, 'ask', { signal: controller.signal });
      show();
      announce('Answered');
    } catch (error) {
      if (!controller.signal.aborted) fill(output, notice(error, { onretry: () => void run() }));
    } finally {
      controller = null;
      fill(askButton, 'Ask');
      output.removeAttribute('aria-busy');
      reveal(output);
    }
  }

  const element = h(
    'div',
    { class: 'view ask-view' },
    h(
      'section',
      { class: 'input', 'aria-label': 'Request' },
      h('h1', { class: 'hidden' }, 'Ask'),
      templates,
      state.element,
      questions.element,
      h('div', { class: 'row submit' }, askButton, hint),
    ),
    output,
  );
  element.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      void run();
    }
  });
  fill(
    output,
    h(
      'div',
      { class: 'empty' },
      h('p', { class: 'title' }, 'Every option gets a probability.'),
      h(
        'p',
        {},
        'One pass of the network decides all questions together. Pick a template or write your own, then ask.',
      ),
    ),
  );
  state.set(TEMPLATES[0].kind, TEMPLATES[0].state);
  questions.set(TEMPLATES[0].questions);

  return {
    element,
    /** @param {Run} run @param {Run | null} [before] */
    restore(run, before = null) {
      const body = parseJson(run.request);
      const value = at(body, 'state') ?? null;
      const text = asText(value);
      state.set(text === undefined ? 'json' : 'text', text ?? writeJson(value, 2));
      questions.setWire(at(body, 'questions') ?? null);
      latest = run;
      pinned = before;
      show();
    },
  };
}
