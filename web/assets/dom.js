// Small words for building the page. Text is only ever set as text: no markup is parsed here.

/** @typedef {Node | string | null | undefined | false} Child */
/** @typedef {Record<string, unknown>} Props */

/**
 * An element. A prop that begins with "on" is a listener ("onclick"), `true` is an attribute without a value, `false`,
 * null and undefined are none; `value` and `checked` are set as properties.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Props} [props]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name.startsWith('on')) {
      element.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
    } else if (name === 'value' || name === 'checked') {
      Object.assign(element, { [name]: value });
    } else {
      setAttribute(element, name, value);
    }
  }
  element.append(...children.filter(isNode));
  return element;
}

/**
 * @param {Child} child
 * @returns {child is Node | string}
 */
const isNode = (child) => child !== null && child !== undefined && child !== false;

/**
 * @param {Element} element
 * @param {string} name
 * @param {unknown} value
 */
export function setAttribute(element, name, value) {
  if (value === false || value === null || value === undefined) element.removeAttribute(name);
  else element.setAttribute(name, value === true ? '' : String(value));
}

/**
 * @param {Element} element
 * @param {...Child} children
 */
export function fill(element, ...children) {
  element.replaceChildren(...children.filter(isNode));
}

/** Outlines in a 16 x 16 box. */
const ICONS = {
  plus: 'M8 3v10M3 8h10',
  close: 'M4 4l8 8M12 4l-8 8',
  up: 'M8 13V3M4 7l4-4 4 4',
  down: 'M8 3v10M4 9l4 4 4-4',
  gear: 'M2 4.5h6M12 4.5h2M2 11.5h2M8 11.5h6M10 2.7v3.6M6 9.7v3.6',
  copy: 'M5.5 5.5h8v8h-8zM3 10.5H2.5v-8h8V3',
  pin: 'M8 14V9.5M4.5 9.5h7L10 6.5v-4H6v4z',
  camera: 'M2 5h3l1-2h4l1 2h3v8H2zM8 11.2a2.4 2.4 0 1 0 0-4.8 2.4 2.4 0 0 0 0 4.8z',
  screen: 'M2 3h12v8H2zM6 14h4M8 11v3',
  picture: 'M2 3h12v10H2zM2 11l3.5-3.5L9 11l2-2 3 3M10.5 6.2h.01',
  film: 'M2 3h12v10H2zM5 3v10M11 3v10M2 8h12',
  download: 'M8 2.5v8M4.5 7.5L8 11l3.5-3.5M3 13.5h10',
  play: 'M5 3l8 5-8 5z',
  pause: 'M5.5 3v10M10.5 3v10',
  stop: 'M4 4h8v8H4z',
  check: 'M3 8.5l3.2 3.2L13 5',
  warning: 'M8 2.2l6.3 11.3H1.7zM8 6.5v3.4M8 11.8v.1',
};

/**
 * @param {keyof typeof ICONS} name
 */
export function icon(name) {
  const ns = 'http://www.w3.org/2000/svg';
  const svg = document.createElementNS(ns, 'svg');
  setAttribute(svg, 'viewBox', '0 0 16 16');
  setAttribute(svg, 'class', 'icon');
  setAttribute(svg, 'aria-hidden', 'true');
  const path = document.createElementNS(ns, 'path');
  setAttribute(path, 'd', ICONS[name]);
  svg.append(path);
  return svg;
}

let numIds = 0;
/** An id that no other element has, for labels. */
export const newId = () => `e${(numIds += 1)}`;

/**
 * A control under its label, with a remark below.
 * @param {string} label
 * @param {HTMLElement} control
 * @param {Child} [remark]
 */
export function field(label, control, remark) {
  control.id ||= newId();
  const note = remark ? h('p', { class: 'remark', id: newId() }, remark) : null;
  if (note) control.setAttribute('aria-describedby', note.id);
  return h('div', { class: 'field' }, h('label', { for: control.id }, label), control, note);
}

/**
 * A button.
 * @param {string} label
 * @param {(event: MouseEvent) => void} onclick
 * @param {Props & { icon?: keyof typeof ICONS, quiet?: boolean }} [props] quiet: the label is for screen readers alone
 */
export function button(label, onclick, { icon: name, quiet, ...props } = {}) {
  return h(
    'button',
    { type: 'button', onclick, ...(quiet ? { 'aria-label': label, title: label } : {}), ...props },
    name && icon(name),
    quiet ? null : label,
  );
}

/**
 * Buttons of which one is pressed.
 * @template {string} Key
 * @param {string} label of them all
 * @param {[Key, string][]} choices
 * @param {Key} chosen
 * @param {(key: Key) => boolean | void} onchange false keeps the old choice
 */
export function segments(label, choices, chosen, onchange) {
  const buttons = new Map(
    choices.map(([key, text]) => [
      key,
      button(text, () => {
        if (key !== chosen && onchange(key) !== false) set(key);
      }),
    ]),
  );
  /** @param {Key} key */
  const set = (key) => {
    chosen = key;
    for (const [other, element] of buttons) element.setAttribute('aria-pressed', String(other === key));
  };
  set(chosen);
  return { element: h('div', { class: 'segments', role: 'group', 'aria-label': label }, ...buttons.values()), set };
}

/**
 * @param {string} name
 * @param {Blob} blob
 */
export function saveFile(name, blob) {
  const url = URL.createObjectURL(blob);
  h('a', { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** What screen readers are told at once. */
const announcer = h('div', { class: 'hidden', role: 'status', 'aria-live': 'polite' });
/** @param {string} text */
export function announce(text) {
  if (!announcer.isConnected) document.body.append(announcer);
  announcer.textContent = text;
}

/**
 * Brings what was waited for into sight, where the screen is too small to show it beside its request.
 * @param {Element} element
 */
export function reveal(element) {
  if (element.getBoundingClientRect().top < innerHeight * 0.6) return;
  const isStill = matchMedia('(prefers-reduced-motion: reduce)').matches;
  element.scrollIntoView({ block: 'start', behavior: isStill ? 'auto' : 'smooth' });
}

/**
 * `work` once, after the last of several calls in a row.
 * @param {number} ms
 * @param {() => void} work
 */
export function debounced(ms, work) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(work, ms);
  };
}
