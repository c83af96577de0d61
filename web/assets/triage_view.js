// Triage: the same questions about many rows or pictures.
import { answersOf } from './answers.js';
import { requestText } from './ask_view.js';
import { BatchRun } from './batch_run.js';
import { announce, button, debounced, field, fill, h, icon, newId, saveFile } from './dom.js';
import { asText, at, Num, writeJson } from './json.js';
import { notice } from './notice.js';
import { Problem } from './problem.js';
import { questionEditor } from './question_editor.js';
import { answerCard, saidLegend } from './result.js';
import { asCsv, asJsonLines } from './row_export.js';
import { rowSource } from './row_source.js';
import { rowTable } from './row_table.js';
import { cellText } from './rows.js';
import { TRIAGE_QUESTIONS } from './templates.js';
import { thresholdPanel } from './threshold.js';

/** @typedef {import('./json.js').Value} Value */
/** @typedef {import('./answers.js').Answer} Answer */

/**
 * @typedef {object} Row
 * @property {'waiting' | 'done' | 'error'} status
 * @property {Value | null} line as the engine answered
 * @property {Answer[]} answers
 * @property {string} message of an error
 * @property {number} version
 */

const PREVIEW_CHARACTERS = 200;
const NO_ANSWERS = /** @type {Answer[]} */ ([]);

/**
 * @param {{ model: () => string }} engine
 */
export function triageView({ model }) {
  /** @type {Row[]} */
  let rows = [];
  /** As they were when the run began. @type {Value} */
  let asked = null;
  let questionIds = /** @type {string[]} */ ([]);
  let sorted = { key: '#', isDescending: false };
  let numDone = 0;
  let numErrors = 0;

  const questions = questionEditor({ label: 'Questions' });
  questions.set(TRIAGE_QUESTIONS);
  const source = rowSource({ onchange: () => reset() });
  const setup = h('details', { class: 'setup', open: true });
  const bar = h(
    'div',
    {
      class: 'progress',
      role: 'progressbar',
      'aria-label': 'Answered rows',
      'aria-valuemin': '0',
      'aria-valuemax': '100',
    },
    h('span', { class: 'fill is-top' }),
  );
  const tally = h('p', { class: 'tally' });
  const problem = h('div');
  const results = h('section', { class: 'results', 'aria-label': 'Rows', hidden: true });
  const startButton = button('Start', () => void start(), { class: 'primary' });
  const pauseButton = button('Pause', () => (run.phase === 'running' ? run.pause() : void run.resume()), {
    hidden: true,
  });
  const stopButton = button('Stop', () => run.stop(), { icon: 'stop', hidden: true });
  const retryButton = button('Try the errors again', () => retry(), { hidden: true });

  const threshold = thresholdPanel({
    onchange: () => arrange(),
    onpick: () => {
      arrange();
      drawColumns();
    },
  });
  const search = h('input', {
    type: 'search',
    placeholder: 'Find in the rows',
    'aria-label': 'Find in the rows',
    oninput: debounced(150, () => arrange()),
  });
  const table = rowTable({
    label: 'Rows and their answers',
    cells: cellsOf,
    version: (index) => rows[index].version,
    onopen: openRow,
    onsort: (key) => {
      sorted = { key, isDescending: sorted.key === key ? !sorted.isDescending : key !== '#' };
      drawColumns();
      arrange();
    },
  });

  const run = new BatchRun({
    requestOf,
    onanswer,
    onunsendable: (index, error) =>
      settle(index, { status: 'error', message: String(error instanceof Error ? error.message : error) }),
    onchange: drawPhase,
  });

  /** @param {number} index */
  async function requestOf(index) {
    return requestText([...(await source.members(index)), ['questions', asked]], model());
  }

  /** @param {number} index @param {Value} line */
  function onanswer(index, line) {
    const error = at(line, 'error');
    if (error === undefined) {
      settle(index, { status: 'done', line, answers: answersOf(line) });
      return true;
    }
    const status = at(error, 'status');
    if (status instanceof Num && status.value === 503) return false;
    settle(index, { status: 'error', line, message: asText(at(error, 'message')) ?? writeJson(error) });
    return true;
  }

  /** @param {number} index @param {Partial<Row>} changes */
  function settle(index, changes) {
    const row = rows[index];
    if (row.status === 'done') numDone -= 1;
    if (row.status === 'error') numErrors -= 1;
    Object.assign(row, changes);
    row.version += 1;
    if (row.status === 'done') numDone += 1;
    if (row.status === 'error') numErrors += 1;
    table.refresh();
    tick();
  }

  // Figures follow at once, once a frame; order and counts a few times a second.
  let isTicking = false;
  function tick() {
    if (isTicking) return;
    isTicking = true;
    requestAnimationFrame(() => {
      isTicking = false;
      drawTally();
    });
    arrangeSoon();
  }
  let arrangedAt = 0;
  const arrangeSoon = (() => {
    let isWaiting = false;
    return () => {
      if (isWaiting) return;
      isWaiting = true;
      setTimeout(
        () => {
          isWaiting = false;
          arrange();
        },
        Math.max(0, arrangedAt + 300 - performance.now()),
      );
    };
  })();

  /** @param {number} index @param {string} key of a question */
  const answerTo = (index, key) => rows[index].answers.find((answer) => answer.id === key);

  /** Which rows are shown, and in which order. */
  function arrange() {
    arrangedAt = performance.now();
    const wanted = search.value.trim().toLowerCase();
    const shown = threshold.filter(rows);
    const found = wanted === '' ? shown : shown.filter((index) => source.preview(index).toLowerCase().includes(wanted));
    if (sorted.key !== '#') {
      const value = (/** @type {number} */ index) => {
        const answer = answerTo(index, sorted.key);
        return answer ? threshold.valueOf(answer) : -1;
      };
      const values = new Map(found.map((index) => [index, value(index)]));
      const sign = sorted.isDescending ? -1 : 1;
      found.sort((a, b) => sign * ((values.get(a) ?? 0) - (values.get(b) ?? 0)) || a - b);
    } else if (sorted.isDescending) {
      found.reverse();
    }
    table.setOrder(found);
    threshold.draw(rows, found.length);
  }

  /** @param {number} index @returns {(Node | string)[]} */
  function cellsOf(index) {
    const row = rows[index];
    const preview = h('span', { class: 'preview' }, source.preview(index).slice(0, PREVIEW_CHARACTERS));
    const first = [h('span', { class: 'number' }, String(index + 1)), preview];
    if (row.status === 'error') return [...first, h('span', { class: 'row-error' }, icon('warning'), row.message)];
    if (row.status === 'waiting')
      return [...first, ...questionIds.map(() => h('span', { class: 'pending', 'aria-label': 'waits' }, '·'))];
    return [...first, ...questionIds.map((id) => answerCell(answerTo(index, id)))];
  }

  /**
   * The likeliest option of an answer, or the one that the threshold looks at.
   * @param {Answer | undefined} answer
   */
  function answerCell(answer) {
    const share = answer && threshold.shareOf(answer);
    if (!answer || !share) return '';
    const sides = { true: 'Yes', false: 'No' };
    const name =
      answer.type === 'noul' ? sides[/** @type {'true' | 'false'} */ (share.label)] : share.legend || share.label;
    const isDerived = share.isTop && answer.isVerdictDerived;
    const bar = h('span', { class: 'fill' });
    bar.style.setProperty('--share', String(share.probability.value));
    return h(
      'span',
      { class: threshold.question() === answer.id ? 'cell-answer is-focus' : 'cell-answer' },
      h('span', { class: `value${isDerived ? ' is-derived' : ''}${share.isTop ? '' : ' is-other'}` }, name),
      h('span', { class: `number${share.probability.isDerived ? ' is-derived' : ''}` }, share.probability.text),
      h('span', { class: 'track', 'aria-hidden': 'true' }, bar),
    );
  }

  function drawColumns() {
    table.setColumns(
      [
        { key: '#', title: '#', width: '4.2rem', isSortable: true },
        { key: 'row', title: source.isPictures ? 'Picture' : 'Row', width: 'minmax(15rem, 2fr)', isSortable: false },
        ...questionIds.map((id) => ({
          key: id,
          title: threshold.titleOf(id),
          width: 'minmax(11rem, 1fr)',
          isSortable: true,
        })),
      ],
      sorted,
    );
  }

  function drawTally() {
    const all = rows.length;
    const done = numDone + numErrors;
    const share = all === 0 ? 0 : done / all;
    /** @type {HTMLElement} */ (bar.firstChild).style.setProperty('--share', String(share));
    bar.setAttribute('aria-valuenow', String(Math.round(share * 100)));
    const rate = run.phase === 'running' ? run.rate() : 0;
    const left = rate > 0 ? Math.ceil((all - done) / rate) : 0;
    bar.hidden = all === 0;
    if (all === 0)
      return fill(
        tally,
        source.count() === 0 ? 'No rows yet' : `${source.count().toLocaleString('en')} rows to ask about`,
      );
    fill(
      tally,
      h('strong', {}, done.toLocaleString('en')),
      ` of ${all.toLocaleString('en')} rows`,
      numErrors > 0 ? h('span', { class: 'is-wrong' }, ` · ${numErrors.toLocaleString('en')} with errors`) : null,
      rate > 0
        ? h(
            'span',
            {},
            ' · ',
            h('span', { class: 'is-derived' }, `${rate < 10 ? rate.toFixed(1) : Math.round(rate)} a second`),
            left > 0 ? `, ${left < 90 ? `${left} s` : `${Math.ceil(left / 60)} min`} left` : '',
          )
        : null,
    );
  }

  function drawPhase() {
    const { phase } = run;
    startButton.hidden = phase === 'running' || phase === 'paused';
    fill(startButton, rows.length > 0 ? 'Start anew' : 'Start');
    pauseButton.hidden = phase !== 'running' && phase !== 'paused';
    fill(pauseButton, icon(phase === 'running' ? 'pause' : 'play'), phase === 'running' ? 'Pause' : 'Go on');
    stopButton.hidden = pauseButton.hidden;
    retryButton.hidden = phase === 'running' || numErrors === 0;
    fill(problem, run.problem ? notice(run.problem) : null);
    if (phase === 'done') announce(`${numDone} rows answered, ${numErrors} with errors`);
    drawTally();
    if (phase !== 'running') arrange();
  }

  function start() {
    const flaws = [...source.flaws(), ...questions.flaws()];
    if (flaws.length > 0) {
      questions.tell();
      fill(problem, notice(new Problem('This cannot be asked yet', { flaws, status: 422 })));
      return;
    }
    asked = questions.value();
    questionIds = asked instanceof Map ? [...asked.keys()] : [];
    rows = Array.from({ length: source.count() }, () => ({
      status: 'waiting',
      line: null,
      answers: NO_ANSWERS,
      message: '',
      version: 0,
    }));
    numDone = 0;
    numErrors = 0;
    sorted = { key: '#', isDescending: false };
    threshold.setQuestions(asked);
    results.hidden = false;
    setup.open = false;
    drawColumns();
    arrange();
    run.start(rows.map((_, index) => index));
  }

  function retry() {
    const failed = rows.flatMap((row, index) => (row.status === 'error' ? [index] : []));
    for (const index of failed) settle(index, { status: 'waiting', message: '', line: null });
    run.start(failed);
  }

  /** @param {number} index */
  function openRow(index) {
    const row = rows[index];
    const title = h('h2', { id: newId() }, `Row ${index + 1}`);
    const picture = source.picture(index);
    const cells = source
      .columns()
      .flatMap((name, i) => [h('dt', {}, name), h('dd', {}, cellText(source.cells(index)[i]))]);
    const content = picture ? pictureElement(picture) : h('dl', { class: 'row-cells' }, ...cells);
    const dialog = h(
      'dialog',
      { class: 'wide', 'aria-labelledby': title.id, onclose: () => dialog.remove() },
      h(
        'header',
        {},
        title,
        button('Close', () => dialog.close(), { icon: 'close', quiet: true, class: 'plain' }),
      ),
      h(
        'div',
        { class: 'body' },
        content,
        row.status === 'error' ? notice(new Problem('The engine refused this row', { said: row.message })) : null,
        row.status === 'waiting' ? h('p', { class: 'remark' }, 'Not answered yet.') : null,
        h('div', { class: 'answers' }, ...row.answers.map((answer) => answerCard(answer))),
        row.status === 'done' ? saidLegend() : null,
        row.line
          ? h(
              'details',
              {},
              h('summary', {}, 'The answer as it came'),
              h('pre', { tabindex: '0' }, writeJson(row.line, 2)),
            )
          : null,
      ),
    );
    document.body.append(dialog);
    dialog.showModal();
  }

  /** @param {File} file */
  function pictureElement(file) {
    const image = h('img', { alt: file.name, class: 'row-picture' });
    image.src = URL.createObjectURL(file);
    image.addEventListener('load', () => URL.revokeObjectURL(image.src));
    return image;
  }

  /**
   * The rows that the filter shows.
   * @param {'csv' | 'jsonl'} format
   */
  function exportRows(format) {
    const indices = threshold.filter(rows);
    const answered = indices.map((index) => ({ ...rows[index], cells: source.cells(index) }));
    const name = `${source.name.replace(/\.[a-z]+$/i, '')}-answers.${format}`;
    if (format === 'jsonl') {
      saveFile(name, new Blob([asJsonLines(source.columns(), answered)], { type: 'application/x-ndjson' }));
    } else {
      // Spreadsheets take a file without this mark for one in the machine's old encoding.
      saveFile(name, new Blob(['\ufeff', asCsv(source.columns(), answered, questionIds)], { type: 'text/csv' }));
    }
    announce(`${indices.length} rows saved`);
  }

  function reset() {
    run.stop();
    rows = [];
    numDone = 0;
    numErrors = 0;
    results.hidden = true;
    drawPhase();
  }

  setup.append(
    h('summary', { class: 'heading' }, 'Rows and questions'),
    h(
      'div',
      { class: 'setup-grid' },
      h('section', { class: 'field', 'aria-label': 'Rows' }, h('span', { class: 'heading' }, 'Rows'), source.element),
      questions.element,
    ),
  );
  fill(
    results,
    h(
      'div',
      { class: 'results-head' },
      threshold.element,
      h(
        'div',
        { class: 'field' },
        field('Find', search),
        h(
          'div',
          { class: 'row wrap' },
          button('CSV', () => exportRows('csv'), { icon: 'download', 'aria-label': 'Save as CSV' }),
          button('JSON lines', () => exportRows('jsonl'), { icon: 'download', 'aria-label': 'Save as JSON lines' }),
        ),
        h('p', { class: 'remark' }, 'Saves the rows that the filter shows.'),
      ),
    ),
    table.element,
  );
  drawPhase();

  const element = h(
    'div',
    { class: 'view triage-view' },
    h('h1', { class: 'hidden' }, 'Triage'),
    setup,
    h(
      'div',
      { class: 'run-bar' },
      h('div', { class: 'row wrap' }, startButton, pauseButton, stopButton, retryButton, tally),
      bar,
    ),
    problem,
    results,
  );
  element.addEventListener('dragover', (event) => event.preventDefault());
  element.addEventListener('drop', (event) => {
    event.preventDefault();
    void source.setFiles([...(event.dataTransfer?.files ?? [])]);
  });
  return { element, show: () => table.refresh() };
}
