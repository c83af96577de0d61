// Rows of many: read from CSV, TSV or JSON lines, and written again with their answers.
import { asText, at, JsonError, parseJson, writeJson } from './json.js';

/** @typedef {import('./json.js').Value} Value */

/**
 * @typedef {object} Sheet
 * @property {string[]} columns
 * @property {Value[][]} rows a cell each column; null where it has none
 * @property {boolean} isText cells are text, as in CSV
 */

/** The delimiter that the first line has most of, outside quotes. @param {string} text */
function delimiterOf(text) {
  const end = text.search(/[\r\n]/);
  const head = text.slice(0, end < 0 ? undefined : end).replace(/"[^"]*"/g, '');
  const counts = [',', ';', '\t'].map((mark) => ({ mark, count: head.split(mark).length }));
  return counts.reduce((best, one) => (one.count > best.count ? one : best)).mark;
}

/**
 * RFC 4180, with any of three delimiters and any line end.
 * @param {string} text
 * @returns {string[][]}
 * @throws {Error} in words for the reader
 */
export function parseCsv(text) {
  const delimiter = delimiterOf(text);
  /** @type {string[][]} */
  const records = [];
  /** @type {string[]} */
  let record = [];
  let at = text.startsWith('\ufeff') ? 1 : 0;
  const plainEnd = new RegExp(`[${delimiter}\r\n]`, 'g');
  while (at < text.length) {
    let cell;
    if (text[at] === '"') {
      const begin = at;
      let end = at + 1;
      for (;;) {
        end = text.indexOf('"', end);
        if (end < 0)
          throw new Error(`Row ${records.length + 1} has a quote that does not end: ${text.slice(begin, begin + 40)}`);
        if (text[end + 1] !== '"') break;
        end += 2;
      }
      cell = text.slice(begin + 1, end).replaceAll('""', '"');
      at = end + 1;
    } else {
      plainEnd.lastIndex = at;
      const end = plainEnd.exec(text)?.index ?? text.length;
      cell = text.slice(at, end);
      at = end;
    }
    record.push(cell);
    const next = text[at];
    if (next === delimiter) {
      at += 1;
      if (at === text.length) record.push('');
      continue;
    }
    if (next !== undefined && next !== '\r' && next !== '\n')
      throw new Error(`Row ${records.length + 1} has text behind a closing quote: ${text.slice(at, at + 40)}`);
    at += next === '\r' && text[at + 1] === '\n' ? 2 : 1;
    if (record.length > 1 || record[0] !== '') records.push(record);
    record = [];
  }
  if (record.length > 0) records.push(record);
  return records;
}

/** @param {string} text @returns {Sheet} */
function sheetOfCsv(text) {
  const [head, ...rows] = parseCsv(text);
  if (!head || rows.length === 0) throw new Error('There are no rows below the first line, which names the columns');
  const columns = head.map((name, i) => name.trim() || `column ${i + 1}`);
  const long = rows.findIndex((row) => row.length > columns.length);
  if (long >= 0)
    throw new Error(`Row ${long + 1} has ${rows[long].length} cells; the first line names ${columns.length} columns`);
  return { columns, rows: rows.map((row) => columns.map((_, i) => row[i] ?? '')), isText: true };
}

/** @param {string} text @returns {Sheet} */
function sheetOfJsonLines(text) {
  /** @type {Value[]} */
  const values = [];
  text.split('\n').forEach((line, i) => {
    if (line.trim() === '') return;
    try {
      values.push(parseJson(line));
    } catch (error) {
      throw new Error(
        `Line ${i + 1} is no JSON: ${error instanceof JsonError ? error.message.replace(/^line 1, /, '') : error}`,
      );
    }
  });
  if (values.length === 0) throw new Error('There are no lines');
  const columns = [...new Set(values.flatMap((value) => (value instanceof Map ? [...value.keys()] : ['value'])))];
  const rows = values.map((value) =>
    columns.map((column) => (value instanceof Map ? (at(value, column) ?? null) : column === 'value' ? value : null)),
  );
  return { columns, rows, isText: false };
}

/**
 * @param {string} text
 * @returns {Sheet}
 * @throws {Error} in words for the reader
 */
export function readSheet(text) {
  if (text.trim() === '') throw new Error('It is empty');
  return /^\s*[[{]/.test(text) ? sheetOfJsonLines(text) : sheetOfCsv(text);
}

/**
 * What the model reads of a row: one column as it stands, or several as an object.
 * @param {Sheet} sheet
 * @param {number} index
 * @param {number[]} columns
 * @returns {Value}
 */
export function stateOf(sheet, index, columns) {
  const row = sheet.rows[index];
  if (columns.length === 1) return row[columns[0]];
  return new Map(
    columns
      .filter((column) => sheet.isText || row[column] !== null)
      .map((column) => [sheet.columns[column], row[column]]),
  );
}

/** A cell as text. @param {Value} value */
export const cellText = (value) => (value === null ? '' : (asText(value) ?? writeJson(value)));

/** @param {string} text */
const csvCell = (text) => (/[",;\t\r\n]/.test(text) || text !== text.trim() ? `"${text.replaceAll('"', '""')}"` : text);

/** @param {string[][]} records */
export const writeCsv = (records) => records.map((record) => record.map(csvCell).join(',') + '\r\n').join('');
