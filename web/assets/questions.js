// Questions as the form holds them, as the wire wants them, and what is wrong with them.
import { asText, at, writeJson } from './json.js';

/** @typedef {import('./json.js').Value} Value */
/** @typedef {'noul' | 'choice' | 'score'} QuestionType */
/** @typedef {{ label: string, description: string }} Option */

/**
 * A question in the form. All parts are kept while the type changes, so that changing back loses nothing.
 * @typedef {object} Question
 * @property {string} id
 * @property {QuestionType} type
 * @property {string} instructions
 * @property {Option[]} options of a choice
 * @property {string[]} levels of a score, lowest first
 * @property {string} yes what true means; empty: the model's own words
 * @property {string} no
 */

/** @typedef {{ field: string, message: string }} Flaw */

/** @type {Record<QuestionType, string>} */
export const TYPE_NAMES = { noul: 'Yes or no', choice: 'One of several', score: 'A level' };

/**
 * @param {Partial<Question>} parts
 * @returns {Question}
 */
export function question(parts) {
  return { id: '', type: 'noul', instructions: '', options: [], levels: [], yes: '', no: '', ...parts };
}

/**
 * @param {string} id
 * @param {string} instructions
 * @param {{ yes?: string, no?: string }} [sides]
 */
export const noul = (id, instructions, sides = {}) => question({ id, type: 'noul', instructions, ...sides });

/**
 * @param {string} id
 * @param {string} instructions
 * @param {Record<string, string>} options label to description
 */
export const choice = (id, instructions, options) =>
  question({
    id,
    type: 'choice',
    instructions,
    options: Object.entries(options).map(([label, description]) => ({ label, description })),
  });

/**
 * @param {string} id
 * @param {string} instructions
 * @param {string[]} levels
 */
export const score = (id, instructions, levels) => question({ id, type: 'score', instructions, levels });

/**
 * The wire's form of one question.
 * @param {Question} q
 * @returns {Map<string, Value>}
 */
function toWire(q) {
  /** @type {Map<string, Value>} */
  const wire = new Map([['type', q.type]]);
  if (q.instructions.trim() !== '') wire.set('instructions', q.instructions);
  if (q.type === 'choice') wire.set('criteria', new Map(q.options.map((o) => [o.label, o.description || null])));
  if (q.type === 'score') wire.set('criteria', [...q.levels]);
  if (q.type === 'noul' && (q.yes || q.no)) {
    /** @type {Map<string, Value>} */
    const sides = new Map();
    if (q.yes) sides.set('true', q.yes);
    if (q.no) sides.set('false', q.no);
    wire.set('criteria', sides);
  }
  return wire;
}

/**
 * @param {Question[]} questions
 * @returns {Map<string, Value>}
 */
export const questionsToWire = (questions) => new Map(questions.map((q) => [q.id, toWire(q)]));

/**
 * What the form lacks before it can be asked.
 * @param {Question[]} questions
 * @returns {Flaw[]}
 */
export function flawsOfForm(questions) {
  /** @type {Flaw[]} */
  const flaws = [];
  if (questions.length === 0) flaws.push({ field: 'questions', message: 'ask at least one' });
  const ids = new Set();
  questions.forEach((q, index) => {
    const place = q.id || `question ${index + 1}`;
    if (!q.id) flaws.push({ field: place, message: 'it needs a name' });
    if (q.id && ids.has(q.id)) flaws.push({ field: place, message: 'another question has this name' });
    ids.add(q.id);
    const names = q.type === 'choice' ? q.options.map((o) => o.label) : q.type === 'score' ? q.levels : null;
    if (!names) return;
    const what = q.type === 'choice' ? 'option' : 'level';
    if (names.length < 2) flaws.push({ field: place, message: `it needs two ${what}s or more` });
    if (names.some((name) => name === '')) flaws.push({ field: place, message: `an empty ${what}` });
    const twice = names.find((name, i) => name !== '' && names.indexOf(name) !== i);
    if (twice !== undefined && q.type === 'choice')
      flaws.push({ field: place, message: `two options are named “${twice}”` });
  });
  return flaws;
}

/**
 * What the wire's form of questions lacks. The engine knows more; it has the last word.
 * @param {Value} wire
 * @returns {Flaw[]}
 */
export function flawsOfWire(wire) {
  if (!(wire instanceof Map)) return [{ field: 'questions', message: 'expected an object: {"name": {"type": ...}}' }];
  if (wire.size === 0) return [{ field: 'questions', message: 'ask at least one' }];
  /** @type {Flaw[]} */
  const flaws = [];
  for (const [id, q] of wire) {
    const field = `questions.${id}`;
    const type = asText(at(q, 'type'));
    const criteria = at(q, 'criteria');
    if (!(q instanceof Map)) flaws.push({ field, message: 'expected an object' });
    else if (type !== 'noul' && type !== 'choice' && type !== 'score') {
      flaws.push({ field: `${field}.type`, message: 'expected "noul", "choice" or "score"' });
    } else if (type === 'choice' && !(criteria instanceof Map && criteria.size >= 2)) {
      flaws.push({ field: `${field}.criteria`, message: 'expected an object of two options or more' });
    } else if (type === 'score' && !(Array.isArray(criteria) && criteria.length >= 2)) {
      flaws.push({ field: `${field}.criteria`, message: 'expected a list of two levels or more' });
    } else if (type === 'noul' && criteria !== undefined && criteria !== null && !(criteria instanceof Map)) {
      flaws.push({ field: `${field}.criteria`, message: 'expected an object with "true", "false" or both' });
    }
  }
  return flaws;
}

/**
 * The wire's form back in the form's, where the form can show all of it.
 * @param {Value} wire without flaws
 * @returns {Question[] | Flaw} the first thing that the form cannot show
 */
export function questionsFromWire(wire) {
  if (!(wire instanceof Map)) return { field: 'questions', message: 'expected an object' };
  /** @type {Question[]} */
  const questions = [];
  for (const [id, q] of wire) {
    const criteria = at(q, 'criteria') ?? null;
    const instructions = at(q, 'instructions') ?? '';
    const parts = criteria instanceof Map ? [...criteria.values()] : Array.isArray(criteria) ? criteria : [];
    const odd = [instructions, ...parts].find((part) => part !== null && typeof part !== 'string');
    if (odd !== undefined) {
      return {
        field: `questions.${id}`,
        message: `the form has no place for ${writeJson(odd).slice(0, 60)}: only for text`,
      };
    }
    const type = /** @type {QuestionType} */ (asText(at(q, 'type')));
    const result = question({ id, type, instructions: /** @type {string} */ (instructions) });
    if (type === 'score') {
      if (parts.some((part) => part === null))
        return { field: `questions.${id}`, message: 'the form has no place for a null level' };
      result.levels = /** @type {string[]} */ (parts);
    }
    if (type === 'choice' && criteria instanceof Map) {
      result.options = [...criteria].map(([label, text]) => ({ label, description: asText(text) ?? '' }));
    }
    if (type === 'noul' && criteria instanceof Map) {
      const dropped = ['true', 'false'].find((side) => criteria.get(side) === null);
      if (dropped) return { field: `questions.${id}`, message: `the form has no place for "${dropped}": null` };
      result.yes = asText(criteria.get('true')) ?? '';
      result.no = asText(criteria.get('false')) ?? '';
    }
    questions.push(result);
  }
  return questions;
}
