// Settings: where the engine is, how it is asked, how the page looks.
import { button, field, fill, h, newId, segments } from './dom.js';
import { clearRuns } from './history.js';
import { Problem } from './problem.js';
import { change, keyOf, originOf, setKey, settings } from './settings.js';

/** @typedef {import('./settings.js').Settings} Settings */

/** @type {[Settings['confidence'], string][]} */
const CONFIDENCES = [
  ['', "the engine's own setting"],
  ['max', 'max: the largest probability'],
  ['typesafe', 'typesafe: how far it is above chance'],
  ['purity', 'purity: how unequal the probabilities are'],
  ['entropy', 'entropy: how little is left open'],
];

/**
 * @param {{ engine: import('./engine.js').Health, models: () => Promise<string[]>, model: () => string }} parts
 */
export function settingsDialog({ engine, models, model }) {
  const address = h('input', {
    type: 'url',
    value: settings.engine,
    placeholder: location.origin,
    autocomplete: 'off',
    spellcheck: 'false',
  });
  const addressFlaw = h('p', { class: 'remark is-wrong', role: 'alert', hidden: true });
  const key = h('input', { type: 'password', value: keyOf(settings.engine), autocomplete: 'off', placeholder: 'none' });
  const remember = h('input', { type: 'checkbox', id: newId(), checked: settings.remembersKey });
  const names = h('datalist', { id: newId() });
  const modelInput = h('input', {
    type: 'text',
    value: settings.model,
    placeholder: model(),
    list: names.id,
    autocomplete: 'off',
    spellcheck: 'false',
  });
  const modelRemark = h('span', {}, 'The names that the engine takes are being fetched.');
  const confidence = h('select', {}, ...CONFIDENCES.map(([value, text]) => h('option', { value }, text)));
  confidence.value = settings.confidence;
  let theme = settings.theme;
  const themes = segments(
    'Colours',
    [
      ['auto', 'As the system'],
      ['light', 'Light'],
      ['dark', 'Dark'],
    ],
    theme,
    (next) => {
      theme = next;
    },
  );
  const clear = button('Delete all runs', async () => {
    await clearRuns();
    fill(clear, 'All runs are deleted');
    document.dispatchEvent(new CustomEvent('history'));
  });

  models().then(
    (found) => {
      fill(names, ...found.map((name) => h('option', { value: name })));
      fill(modelRemark, found.length > 0 ? `The engine serves ${found.join(', ')}.` : 'The engine names none.');
    },
    (error) => fill(modelRemark, error instanceof Problem ? `${error.title}.` : String(error)),
  );

  /** @param {string} message */
  function refuse(message) {
    addressFlaw.hidden = false;
    fill(addressFlaw, message);
    address.focus();
  }

  function save() {
    const text = address.value.trim();
    const origin = text === '' ? '' : originOf(text);
    if (origin === null) {
      refuse(`“${text}” is no address. Write it like http://127.0.0.1:8080`);
      return;
    }
    const next = origin === location.origin ? '' : origin;
    if (next.includes('['))
      return refuse('Browsers cannot be told to allow an IPv6 address. Give the engine a host name.');
    settings.remembersKey = remember.checked;
    // A key belongs to the engine that it was typed for: a new address does not get the old one's.
    if (next === settings.engine || key.value !== keyOf(settings.engine)) setKey(next, key.value.trim());
    change({
      engine: next,
      model: modelInput.value.trim(),
      confidence: /** @type {Settings['confidence']} */ (confidence.value),
      theme,
      remembersKey: remember.checked,
    });
    dialog.close();
  }

  const title = h('h2', { id: newId() }, 'Settings');
  const dialog = h(
    'dialog',
    { 'aria-labelledby': title.id, onclose: () => dialog.remove() },
    h(
      'form',
      {
        method: 'dialog',
        novalidate: true, // an address without its http:// will do
        onsubmit: (/** @type {Event} */ event) => {
          event.preventDefault();
          save();
        },
      },
      h(
        'header',
        {},
        title,
        button('Close', () => dialog.close(), { icon: 'close', quiet: true, class: 'plain' }),
      ),
      h(
        'div',
        { class: 'body' },
        field(
          'Engine',
          address,
          'Empty: the server that this page came from. Another one has to let this page in: clef-server --cors-origin ' +
            location.origin,
        ),
        addressFlaw,
        field('API key', key, 'Sent to that engine alone. Only needed if it was started with --keys.'),
        h(
          'div',
          { class: 'check' },
          remember,
          h('label', { for: remember.id }, 'Remember the key when this tab is closed'),
        ),
        field('Model', modelInput, modelRemark),
        names,
        field('Confidence', confidence),
        h('div', { class: 'field' }, h('span', { class: 'label' }, 'Colours'), themes.element),
        h(
          'div',
          { class: 'field' },
          h('span', { class: 'label' }, 'History'),
          h('p', { class: 'remark' }, 'Runs are kept in this browser alone.'),
          h('div', { class: 'row' }, clear),
        ),
        engine.device ? h('p', { class: 'remark' }, `The engine runs ${engine.model} on ${engine.device}.`) : null,
      ),
      h(
        'footer',
        {},
        button('Cancel', () => dialog.close()),
        h('button', { type: 'submit', class: 'primary' }, 'Save'),
      ),
    ),
  );
  document.body.append(dialog);
  dialog.showModal();
}
