// Rows with their answers as files: every figure as the engine said it, none that this page worked out.
import { at, writeJson } from './json.js';
import { cellText, writeCsv } from './rows.js';

/** @typedef {import('./json.js').Value} Value */
/** @typedef {import('./answers.js').Answer} Answer */

/**
 * @typedef {object} AnsweredRow
 * @property {Value[]} cells
 * @property {Value | null} line as the engine answered
 * @property {Answer[]} answers
 * @property {string} message of an error
 */

/**
 * @param {string[]} columns
 * @param {AnsweredRow[]} rows
 */
export function asJsonLines(columns, rows) {
  return rows
    .map(({ cells, line, message }) => {
      /** @type {Map<string, Value>} */
      const record = new Map();
      record.set('row', new Map(columns.map((column, i) => [column, cells[i]])));
      record.set('answers', at(line ?? null, 'answers') ?? null);
      record.set('error', message || null);
      return writeJson(record) + '\n';
    })
    .join('');
}

/**
 * A column for what each question came to, and one for each probability of its options.
 * @param {string[]} columns
 * @param {AnsweredRow[]} rows
 * @param {string[]} questions
 */
export function asCsv(columns, rows, questions) {
  const answerTo = (/** @type {AnsweredRow} */ row, /** @type {string} */ id) =>
    row.answers.find((one) => one.id === id);
  const labels = questions.map((id) => {
    const any = rows.map((row) => answerTo(row, id)).find((answer) => answer !== undefined);
    return (any?.shares ?? []).filter((share) => !share.probability.isDerived).map((share) => share.label);
  });
  const head = questions.flatMap((id, q) => [id, ...labels[q].map((label) => `${id}: ${label}`)]);
  const records = rows.map((row) => [
    ...row.cells.map(cellText),
    ...questions.flatMap((id, q) => {
      const answer = answerTo(row, id);
      const probability = (/** @type {string} */ label) =>
        answer?.shares.find((share) => share.label === label)?.probability.text ?? '';
      return [answer?.verdict ?? '', ...labels[q].map(probability)];
    }),
    row.message,
  ]);
  return writeCsv([[...columns, ...head, 'error'], ...records]);
}
