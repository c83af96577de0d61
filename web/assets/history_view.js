// History: earlier runs of this browser, and runs from files.
import { answersOf } from './answers.js';
import { announce, button, fill, h, newId, saveFile } from './dom.js';
import { addRun, allRuns, fromFile, numPictures, removeRun, titleOf, toFile } from './history.js';
import { parseJson } from './json.js';
import { briefly, saidLegend } from './result.js';

/** @typedef {import('./history.js').Run} Run */

const MAX_SHOWN_ANSWERS = 4;

/** @param {number} when */
function timeOf(when) {
  const date = new Date(when);
  const isToday = date.toDateString() === new Date().toDateString();
  return date.toLocaleString(
    undefined,
    isToday ? { timeStyle: 'medium' } : { dateStyle: 'medium', timeStyle: 'short' },
  );
}

/**
 * @param {{ open: (run: Run, before?: Run | null) => void }} page
 */
export function historyView({ open }) {
  /** @type {Run[]} */
  let runs = [];
  /** @type {Set<string>} */
  const chosen = new Set();
  const list = h('ul', { class: 'runs' });
  const remark = h('p', { class: 'remark', role: 'status' });
  const legend = saidLegend();

  const compare = button(
    'Compare the two',
    () => {
      const [now, before] = runs.filter((run) => chosen.has(run.id));
      open(now, before);
    },
    { disabled: true },
  );
  const save = button(
    'Save as a file',
    () => {
      const picked = chosen.size > 0 ? runs.filter((run) => chosen.has(run.id)) : runs;
      saveFile('clef-runs.json', toFile(picked));
      announce(`${picked.length} runs saved`);
    },
    { icon: 'download' },
  );
  const file = h('input', {
    type: 'file',
    accept: '.json,application/json',
    id: newId(),
    class: 'hidden',
    onchange: async () => {
      const [picked] = file.files ?? [];
      if (!picked) return;
      try {
        const read = fromFile(await picked.text());
        for (const run of read) await addRun(run);
        remark.textContent = `${read.length} runs read from ${picked.name}`;
      } catch (error) {
        remark.textContent = `${picked.name}: ${error instanceof Error ? error.message : error}`;
      }
      file.value = '';
      await draw();
    },
  });

  function tell() {
    compare.disabled = chosen.size !== 2;
    save.lastChild?.replaceWith(chosen.size > 0 ? `Save ${chosen.size} as a file` : 'Save all as a file');
    save.disabled = runs.length === 0;
  }

  /** @param {Run} run */
  function row(run) {
    const answers = answersOf(parseJson(run.response));
    const check = h('input', {
      type: 'checkbox',
      'aria-label': `Choose the run of ${timeOf(run.when)}`,
      checked: chosen.has(run.id),
      onchange: () => {
        if (check.checked) chosen.add(run.id);
        else chosen.delete(run.id);
        tell();
      },
    });
    const pictures = numPictures(run);
    const more = answers.length - MAX_SHOWN_ANSWERS;
    const when =
      pictures > 0 ? `${timeOf(run.when)} · ${pictures} picture${pictures > 1 ? 's' : ''}` : timeOf(run.when);
    const summary = h(
      'button',
      { type: 'button', class: 'summary', onclick: () => open(run) },
      h('span', { class: 'when' }, when),
      h('span', { class: 'gist' }, titleOf(run)),
      h(
        'span',
        { class: 'verdicts' },
        ...answers.slice(0, MAX_SHOWN_ANSWERS).map(briefly),
        more > 0 && h('span', {}, `and ${more} more`),
      ),
    );
    return h(
      'li',
      { class: 'card past' },
      check,
      summary,
      button(
        `Delete the run of ${timeOf(run.when)}`,
        async () => {
          await removeRun(run.id);
          chosen.delete(run.id);
          await draw();
        },
        { icon: 'close', quiet: true, class: 'tiny' },
      ),
    );
  }

  async function draw() {
    runs = await allRuns();
    fill(list, ...runs.map(row));
    legend.hidden = runs.length === 0;
    if (runs.length === 0) {
      fill(
        list,
        h(
          'li',
          { class: 'empty' },
          h('p', { class: 'title' }, 'No runs yet.'),
          h('p', {}, 'What you ask is kept here, in this browser alone, until you delete it.'),
        ),
      );
    }
    tell();
  }
  document.addEventListener('history', () => void draw());

  return {
    element: h(
      'div',
      { class: 'view history-view' },
      h(
        'div',
        { class: 'row between wrap' },
        h('h1', {}, 'History'),
        h(
          'div',
          { class: 'row wrap' },
          compare,
          save,
          h('label', { class: 'button', for: file.id }, 'Open a file'),
          file,
        ),
      ),
      remark,
      list,
      legend,
    ),
    show: () => void draw(),
  };
}
