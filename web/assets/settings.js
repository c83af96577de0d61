// What the page remembers of its user's wishes. The key is kept apart from the rest, for each engine by itself, and only
// for as long as the tab is open unless the user asks for more.

/**
 * @typedef {object} Settings
 * @property {string} engine origin of the engine; '' for the server that this page came from
 * @property {string} model '' for the one that the engine serves
 * @property {'' | 'max' | 'typesafe' | 'purity' | 'entropy'} confidence '' for the engine's own
 * @property {'auto' | 'light' | 'dark'} theme
 * @property {boolean} remembersKey
 */

const PLACE = 'clef.settings';
const KEYS = 'clef.keys';

/** @type {Settings} */
const DEFAULTS = { engine: '', model: '', confidence: '', theme: 'auto', remembersKey: false };

/** A browser may have none for us; asking for it throws then. */
const STORAGES = { tab: () => sessionStorage, browser: () => localStorage };

/**
 * @param {keyof typeof STORAGES} storage
 * @param {string} place
 * @returns {Record<string, unknown>}
 */
function read(storage, place) {
  try {
    const value = JSON.parse(STORAGES[storage]().getItem(place) ?? '{}');
    return typeof value === 'object' && value !== null ? value : {};
  } catch {
    return {}; // somebody else's, or none at all
  }
}

/**
 * @param {keyof typeof STORAGES} storage
 * @param {string} place
 * @param {object} value
 */
function write(storage, place, value) {
  try {
    STORAGES[storage]().setItem(place, JSON.stringify(value));
  } catch {
    // A browser without storage: the page works until it is closed.
  }
}

/** @type {Settings} */
export const settings = { ...DEFAULTS };
for (const [name, value] of Object.entries(read('browser', PLACE))) {
  if (name in DEFAULTS && typeof value === typeof DEFAULTS[/** @type {keyof Settings} */ (name)])
    Object.assign(settings, { [name]: value });
}

/** @param {Partial<Settings>} changes */
export function change(changes) {
  Object.assign(settings, changes);
  write('browser', PLACE, settings);
  document.dispatchEvent(new CustomEvent('settings'));
}

/** @param {string} engine */
export function keyOf(engine) {
  const key = read('tab', KEYS)[engine] ?? read('browser', KEYS)[engine];
  return typeof key === 'string' ? key : '';
}

/**
 * @param {string} engine
 * @param {string} key '' forgets it
 */
export function setKey(engine, key) {
  /** @type {[keyof typeof STORAGES, boolean][]} */
  const places = [
    ['tab', true],
    ['browser', settings.remembersKey],
  ];
  for (const [storage, holds] of places) {
    const keys = read(storage, KEYS);
    if (key !== '' && holds) keys[engine] = key;
    else delete keys[engine];
    write(storage, KEYS, keys);
  }
}

/**
 * An engine's address as its origin; null when it is none.
 * @param {string} text
 */
export function originOf(text) {
  try {
    const { origin, protocol } = new URL(/^https?:\/\//.test(text) ? text : `http://${text}`);
    return protocol === 'http:' || protocol === 'https:' ? origin : null;
  } catch {
    return null;
  }
}

export function applyTheme() {
  const root = document.documentElement;
  if (settings.theme === 'auto') root.removeAttribute('data-theme');
  else root.setAttribute('data-theme', settings.theme);
}

/**
 * The server lets this page reach one engine elsewhere, the one that the page's address names. True when the page has to
 * be loaded again for the engine of the settings. An address alone never changes the settings: links could do that.
 */
export function mustReload() {
  const { searchParams } = new URL(location.href);
  return (searchParams.get('engine') ?? '') !== settings.engine;
}

export function reload() {
  const address = new URL(location.href);
  address.search = settings.engine === '' ? '' : `?engine=${encodeURIComponent(settings.engine)}`;
  location.replace(address);
}
