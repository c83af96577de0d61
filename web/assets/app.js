// The page's frame: navigation, the engine's health, settings, and the views, each loaded when it is first looked at.
import { askView } from './ask_view.js';
import { button, fill, h } from './dom.js';
import { health, models } from './engine.js';
import { applyTheme, mustReload, reload, settings } from './settings.js';

/** @typedef {import('./history.js').Run} Run */
/** @typedef {import('./engine.js').Health} Health */
/** @typedef {{ element: HTMLElement, show?: () => void, hide?: () => void, restore?: (run: Run, before?: Run | null) => void }} View */
/** @typedef {'ask' | 'see' | 'triage' | 'history'} ViewName */

const HEALTH_INTERVAL_MS = 15_000;

/** @type {Record<ViewName, string>} */
const NAMES = { ask: 'Ask', see: 'See', triage: 'Triage', history: 'History' };

/** @type {Health} */
let engine = { status: 'loading', model: '', device: '', reason: '' };
/** What "model" says in a request. */
const model = () => settings.model || engine.model || 'jev-latest';

/** @type {Record<ViewName, () => Promise<View>>} */
const makers = {
  ask: async () => askView({ model }),
  see: async () => (await import('./see_view.js')).seeView({ model }),
  triage: async () => (await import('./triage_view.js')).triageView({ model }),
  history: async () => (await import('./history_view.js')).historyView({ open: openRun }),
};
/** @type {Map<ViewName, Promise<View>>} */
const views = new Map();

/** @param {ViewName} name */
function viewOf(name) {
  let view = views.get(name);
  if (!view) {
    view = makers[name]();
    view.catch(() => views.delete(name));
    views.set(name, view);
  }
  return view;
}

const main = h('main', { id: 'main' });
const tabs = new Map(
  /** @type {ViewName[]} */ (Object.keys(NAMES)).map((name) => [name, h('a', { href: `#${name}` }, NAMES[name])]),
);
const chip = h('button', { type: 'button', class: 'engine-chip', onclick: () => void openSettings() });

/** @type {View | null} */
let current = null;

async function route() {
  const wanted = location.hash.slice(1);
  const name = /** @type {ViewName} */ (wanted in NAMES ? wanted : 'ask');
  for (const [other, tab] of tabs) {
    if (other === name) tab.setAttribute('aria-current', 'page');
    else tab.removeAttribute('aria-current');
  }
  document.title = `${NAMES[name]} · cleffa`;
  try {
    const view = await viewOf(name);
    if (current === view) return;
    current?.hide?.();
    current = view;
    fill(main, view.element);
    view.show?.();
  } catch {
    fill(
      main,
      h(
        'div',
        { class: 'empty' },
        h('p', { class: 'title' }, 'This part of the page could not be loaded.'),
        h('p', {}, 'The server is gone, or another version of it runs now.'),
        button('Load the page again', () => location.reload()),
      ),
    );
  }
}

/** @param {Run} run @param {Run | null} [before] */
async function openRun(run, before = null) {
  const view = await viewOf(run.view);
  location.hash = run.view;
  view.restore?.(run, before);
}

const WORDS = { ok: 'ready', loading: 'loading', failing: 'failing', down: 'no answer' };

async function look() {
  engine = await health();
  const where = settings.engine ? new URL(settings.engine).host : '';
  const word = WORDS[engine.status];
  chip.className = `engine-chip is-${engine.status}`;
  fill(
    chip,
    h('span', { class: 'dot', 'aria-hidden': 'true' }),
    h('span', { class: 'what' }, engine.status === 'down' ? where || 'Engine' : model()),
    h('span', { class: 'hidden' }, ` is ${word}. `),
    h('span', { class: 'how' }, engine.status === 'ok' ? [engine.device, where].filter(Boolean).join(' · ') : word),
  );
  chip.title = engine.reason;
}

async function openSettings() {
  const { settingsDialog } = await import('./settings_dialog.js');
  settingsDialog({ engine, models, model });
}

function start() {
  applyTheme();
  if (mustReload()) return reload();
  document.body.append(
    h(
      'a',
      {
        class: 'skip',
        href: '#main',
        onclick: (/** @type {Event} */ event) => {
          event.preventDefault();
          main.tabIndex = -1;
          main.focus();
        },
      },
      'Skip to content',
    ),
    h(
      'header',
      { class: 'top' },
      h(
        'a',
        { class: 'brand', href: '#ask' },
        h('span', { class: 'glyph', 'aria-hidden': 'true' }, h('i'), h('i'), h('i')),
        'cleffa',
      ),
      h('nav', { 'aria-label': 'Views' }, ...tabs.values()),
      chip,
      button('Settings', () => void openSettings(), { icon: 'gear', quiet: true, class: 'plain' }),
    ),
    main,
  );
  window.addEventListener('hashchange', () => void route());
  document.addEventListener('open-settings', () => void openSettings());
  document.addEventListener('settings', () => {
    applyTheme();
    if (mustReload()) reload();
    else void look();
  });
  document.addEventListener('visibilitychange', () => document.hidden || void look());
  setInterval(() => document.hidden || void look(), HEALTH_INTERVAL_MS);
  void look();
  void route();
}

start();
