// JSON as the engine sees it: members in their written order, numbers in their written digits. JavaScript's own objects
// move keys such as "10" to the front and forget whether a number was 1 or 1.0; both would change what the model reads.

/** A number as it was written. */
export class Num {
  /** @param {string} text */
  constructor(text) {
    this.text = text;
  }
  get value() {
    return Number(this.text);
  }
}

/** @typedef {import('../types').Value} Value any JSON value; an object is a map */

const MAX_DEPTH = 512; // the engine's

/** Where a text stops being JSON, in words. */
export class JsonError extends Error {
  /**
   * @param {string} text
   * @param {number} offset
   * @param {string} message
   */
  constructor(text, offset, message) {
    const before = text.slice(0, offset).split('\n');
    const line = before.length;
    const column = before[line - 1].length + 1;
    super(`line ${line}, column ${column}: ${message}`);
    this.line = line;
    this.column = column;
  }
}

const SPACE = /[ \t\n\r]*/y;
const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const WORD = /true|false|null/y;
const PLAIN = /[^"\\\u0000-\u001f]*/y;
const ESCAPES = new Map([
  ['"', '"'],
  ['\\', '\\'],
  ['/', '/'],
  ['b', '\b'],
  ['f', '\f'],
  ['n', '\n'],
  ['r', '\r'],
  ['t', '\t'],
]);

class Parser {
  /** @param {string} text */
  constructor(text) {
    this.text = text;
    this.at = 0;
  }

  /**
   * @param {RegExp} pattern
   * @returns {string} what it matches here, '' for nothing
   */
  take(pattern) {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text)?.[0] ?? '';
    this.at += found.length;
    return found;
  }

  /**
   * @param {string} message
   * @returns {never}
   */
  fail(message) {
    throw new JsonError(this.text, this.at, this.at >= this.text.length ? `${message}, but the text ends` : message);
  }

  /** The next character that is no space, which stays. */
  peek() {
    this.take(SPACE);
    return this.text[this.at] ?? '';
  }

  /**
   * @param {number} depth
   * @returns {Value}
   */
  value(depth) {
    if (depth > MAX_DEPTH) this.fail('nested too deep');
    const next = this.peek();
    if (next === '{') return this.object(depth);
    if (next === '[') return this.array(depth);
    if (next === '"') return this.string();
    const word = this.take(WORD);
    if (word) return word === 'null' ? null : word === 'true';
    const number = this.take(NUMBER);
    if (number) return new Num(number);
    return this.fail(next === "'" ? 'strings stand in double quotes' : 'expected a value');
  }

  /** @param {number} depth */
  object(depth) {
    /** @type {Map<string, Value>} */
    const members = new Map();
    this.at += 1;
    if (this.peek() === '}') {
      this.at += 1;
      return members;
    }
    for (;;) {
      if (this.peek() !== '"') this.fail('expected a name in double quotes');
      const name = this.string();
      if (this.peek() !== ':') this.fail('expected ":"');
      this.at += 1;
      members.set(name, this.value(depth + 1));
      const next = this.peek();
      if (next !== ',' && next !== '}') this.fail('expected "," or "}"');
      this.at += 1;
      if (next === '}') return members;
    }
  }

  /** @param {number} depth */
  array(depth) {
    /** @type {Value[]} */
    const items = [];
    this.at += 1;
    if (this.peek() === ']') {
      this.at += 1;
      return items;
    }
    for (;;) {
      items.push(this.value(depth + 1));
      const next = this.peek();
      if (next !== ',' && next !== ']') this.fail('expected "," or "]"');
      this.at += 1;
      if (next === ']') return items;
    }
  }

  string() {
    this.at += 1;
    let result = '';
    for (;;) {
      result += this.take(PLAIN);
      const next = this.text[this.at];
      if (next === '"') {
        this.at += 1;
        return result;
      }
      if (next !== '\\')
        this.fail(
          next === undefined ? 'expected a closing quote' : 'a line end or control character in a string: write \\n',
        );
      result += this.escape();
    }
  }

  escape() {
    const letter = this.text[this.at + 1] ?? '';
    const plain = ESCAPES.get(letter);
    if (plain !== undefined) {
      this.at += 2;
      return plain;
    }
    const digits = this.text.slice(this.at + 2, this.at + 6);
    if (letter !== 'u' || !/^[0-9a-fA-F]{4}$/.test(digits)) this.fail('no such escape in a string');
    this.at += 6;
    return String.fromCharCode(parseInt(digits, 16));
  }
}

/**
 * @param {string} text
 * @returns {Value}
 * @throws {JsonError}
 */
export function parseJson(text) {
  const parser = new Parser(text);
  const value = parser.value(1);
  if (parser.peek() !== '') parser.fail('something follows the value');
  return value;
}

/**
 * Compact with an indent of 0, else over lines.
 * @param {Value} value
 * @param {number} [indent]
 * @param {string} [margin]
 * @returns {string}
 */
export function writeJson(value, indent = 0, margin = '') {
  if (value instanceof Num) return value.text;
  const inner = margin + ' '.repeat(indent);
  /**
   * @param {string[]} parts
   * @param {string} open
   * @param {string} close
   */
  const enclose = (parts, open, close) => {
    if (parts.length === 0) return open + close;
    if (indent === 0) return open + parts.join(',') + close;
    return `${open}\n${inner}${parts.join(`,\n${inner}`)}\n${margin}${close}`;
  };
  const colon = indent === 0 ? ':' : ': ';
  if (value instanceof Map) {
    return enclose(
      [...value].map(([name, member]) => JSON.stringify(name) + colon + writeJson(member, indent, inner)),
      '{',
      '}',
    );
  }
  if (Array.isArray(value))
    return enclose(
      value.map((item) => writeJson(item, indent, inner)),
      '[',
      ']',
    );
  return JSON.stringify(value);
}

/**
 * The value below the names and places of a path; undefined when something on the way is missing.
 * @param {Value | undefined} value
 * @param {...(string | number)} path
 * @returns {Value | undefined}
 */
export function at(value, ...path) {
  for (const step of path) {
    if (value instanceof Map && typeof step === 'string') value = value.get(step);
    else if (Array.isArray(value) && typeof step === 'number') value = value[step];
    else return undefined;
  }
  return value;
}

/**
 * @param {Value | undefined} value
 * @returns {string | undefined}
 */
export const asText = (value) => (typeof value === 'string' ? value : undefined);
