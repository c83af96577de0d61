// The page's modules that need no page.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { answersOf, extrasOf, tokensOf, topShare } from './answers.js';
import { frameSize } from './clip.js';
import { asCurl, asJavaScript, asPython } from './code.js';
import { fromFile } from './history.js';
import { at, JsonError, Num, parseJson, writeJson } from './json.js';
import {
  choice,
  flawsOfForm,
  flawsOfWire,
  noul,
  question,
  questionsFromWire,
  questionsToWire,
  score,
} from './questions.js';
import { asCsv, asJsonLines } from './row_export.js';
import { parseCsv, readSheet, stateOf, writeCsv } from './rows.js';
import { SEE_TEMPLATES, TEMPLATES } from './templates.js';

test('JSON keeps the order of members and the digits of numbers', () => {
  const text = '{"10":1.0,"2":[1e-07,12345678901234567890,-0],"a":{"":null}}';
  assert.equal(writeJson(parseJson(text)), text);
  assert.deepEqual([...parseJson(text).keys()], ['10', '2', 'a']);
});

test('JSON: of a repeated name the last value counts at the first place', () => {
  assert.equal(writeJson(parseJson('{"a":1,"b":2,"a":3}')), '{"a":3,"b":2}');
});

test('JSON says where it ends to be JSON', () => {
  const places = {
    '': [1, 1],
    '{"a": 1,\n "b" 2}': [2, 6],
    "{'a': 1}": [1, 2],
    '[1, 2': [1, 6],
    '"a\nb"': [1, 3],
    '01': [1, 2],
    '[1,]': [1, 4],
    '"\\x"': [1, 2],
    NaN: [1, 1],
    '1 2': [1, 3],
    '"\\u12"': [1, 2],
    '[nul]': [1, 2],
  };
  for (const [text, [line, column]] of Object.entries(places)) {
    assert.throws(
      () => parseJson(text),
      (error) => error instanceof JsonError && error.line === line && error.column === column,
      text,
    );
  }
});

test('JSON that is too deep is refused, as by the engine', () => {
  assert.doesNotThrow(() => parseJson('['.repeat(512) + ']'.repeat(512)));
  assert.throws(() => parseJson('['.repeat(513) + ']'.repeat(513)), JsonError);
  assert.throws(() => parseJson('['.repeat(100_000)), JsonError);
});

test('JSON strings are what JavaScript reads', () => {
  for (const text of ['"\\u00e9\\n\\"\\\\\\/"', '"\\ud83d\\ude00"', '"é😀"', '"\\ud800"']) {
    assert.equal(parseJson(text), JSON.parse(text));
    assert.equal(writeJson(parseJson(text)), JSON.stringify(JSON.parse(text)));
  }
});

test('questions survive the way to the wire and back', () => {
  for (const { questions } of [...TEMPLATES, ...SEE_TEMPLATES]) {
    assert.deepEqual(flawsOfForm(questions), []);
    const wire = questionsToWire(questions);
    assert.deepEqual(flawsOfWire(wire), []);
    assert.equal(writeJson(questionsToWire(questionsFromWire(wire))), writeJson(wire));
  }
});

test('questions keep options whose names look like numbers in their order', () => {
  const wire = questionsToWire([
    question({
      id: '2',
      type: 'choice',
      options: [
        { label: '10', description: '' },
        { label: '9', description: 'nine' },
      ],
    }),
    noul('1', ''),
  ]);
  assert.equal(writeJson(wire), '{"2":{"type":"choice","criteria":{"10":null,"9":"nine"}},"1":{"type":"noul"}}');
});

test('the form names what is missing', () => {
  const flaws = (...questions) => flawsOfForm(questions).map((flaw) => `${flaw.field}: ${flaw.message}`);
  assert.match(flaws()[0], /^questions: /);
  assert.match(flaws(noul('', 'x'))[0], /^question 1: it needs a name/);
  assert.match(flaws(noul('a', ''), noul('a', ''))[0], /^a: another question/);
  assert.match(flaws(choice('a', '', { x: '' }))[0], /^a: it needs two options/);
  assert.match(flaws(score('a', '', ['low', '']))[0], /^a: an empty level/);
  assert.match(
    flaws(
      question({
        id: 'a',
        type: 'choice',
        options: [
          { label: 'x', description: '' },
          { label: 'x', description: '' },
        ],
      }),
    )[0],
    /two options are named/,
  );
});

test('the form takes no JSON that it cannot show', () => {
  const read = (text) => questionsFromWire(parseJson(text));
  assert.equal(read('{"a":{"type":"noul","instructions":{"b":1}}}').field, 'questions.a');
  assert.equal(read('{"a":{"type":"score","criteria":["x",null]}}').field, 'questions.a');
  assert.equal(read('{"a":{"type":"noul","criteria":{"true":null}}}').field, 'questions.a');
  assert.ok(Array.isArray(read('{"a":{"type":"noul","criteria":{"true":"yes"}}}')));
});

const RESPONSE = parseJson(`{"model":"m","answers":{
  "n":{"type":"noul","noul":0.9731},
  "c":{"type":"choice","choice":"10","confidence":0.5,"probabilities":{"10":0.5,"2":0.5}},
  "s":{"type":"score","score":1.0,"confidence":0.75,"legend":{"0":"low","1":{"a":1}},"probabilities":{"0":0.25,"1":0.75}}},
  "usage":{"input_tokens":146,"output_tokens":0},"x_logits":{"n":{"true":1.5}}}`);

test('answers keep the digits of the engine, and mark what is worked out', () => {
  const [n, c, s] = answersOf(RESPONSE);
  assert.deepEqual(
    n.shares.map((share) => [share.label, share.probability.text, share.probability.isDerived]),
    [
      ['true', '0.9731', false],
      ['false', '0.0269', true],
    ],
  );
  assert.deepEqual([n.verdict, n.isVerdictDerived, n.confidence], ['Yes', true, null]);
  assert.deepEqual([c.verdict, c.isVerdictDerived, topShare(c).label], ['10', false, '10']);
  assert.deepEqual(
    c.shares.map((share) => share.label),
    ['10', '2'],
  );
  assert.deepEqual([s.score.text, s.maxScore, s.verdict, s.shares[1].legend], ['1.0', 1, '{"a":1}', '{"a":1}']);
  assert.equal(tokensOf(RESPONSE).text, '146');
  assert.deepEqual(extrasOf(RESPONSE), [['x_logits', '{"n":{"true":1.5}}']]);
});

test('answers that are none do no harm', () => {
  for (const text of [
    '1',
    '{}',
    '{"answers":[]}',
    '{"answers":{"a":null}}',
    '{"answers":{"a":{"type":"choice"}}}',
    '{"answers":{"a":{"type":"noul","noul":"x"}}}',
  ]) {
    assert.doesNotThrow(() => answersOf(parseJson(text)), text);
  }
});

test('CSV is read as RFC 4180 says, with other delimiters too', () => {
  assert.deepEqual(parseCsv('a,b\r\n"x, ""y""\n","",\r\n'), [
    ['a', 'b'],
    ['x, "y"\n', '', ''],
  ]);
  assert.deepEqual(parseCsv('\ufeffa;b\n1,5;2\n'), [
    ['a', 'b'],
    ['1,5', '2'],
  ]);
  assert.deepEqual(parseCsv('a\tb\n1\t2'), [
    ['a', 'b'],
    ['1', '2'],
  ]);
  assert.deepEqual(parseCsv('"a,b";c\n1;2\n\n3;'), [
    ['a,b', 'c'],
    ['1', '2'],
    ['3', ''],
  ]);
  assert.throws(() => parseCsv('a\n"x'), /quote that does not end/);
  assert.throws(() => parseCsv('a\n"x"y'), /behind a closing quote/);
});

test('CSV that is written is read again', () => {
  const records = [
    ['a', 'b c', '"', ' x '],
    ['1,2', 'x\ny', '', ';'],
  ];
  assert.deepEqual(parseCsv(writeCsv(records)), records);
});

test('sheets tell CSV from JSON lines', () => {
  const csv = readSheet('id,text\n1,a\n2\n');
  assert.deepEqual(csv, {
    columns: ['id', 'text'],
    rows: [
      ['1', 'a'],
      ['2', ''],
    ],
    isText: true,
  });
  const lines = readSheet('{"a":1.0}\n\n{"b":[2]}\n"x"\n');
  assert.deepEqual(lines.columns, ['a', 'b', 'value']);
  assert.equal(writeJson(stateOf(lines, 0, [0, 1])), '{"a":1.0}');
  assert.equal(writeJson(stateOf(lines, 2, [2])), '"x"');
  assert.throws(() => readSheet('{"a":1}\n{"a":}'), /^Error: Line 2 is no JSON: column 6/);
  assert.throws(() => readSheet('a,b\n1,2,3\n'), /Row 1 has 3 cells/);
  assert.throws(() => readSheet('only a head\n'), /no rows/);
  assert.throws(() => readSheet(' \n'), /empty/);
});

test('100,000 rows are read', () => {
  const sheet = readSheet(
    'id,text\n' + Array.from({ length: 100_000 }, (_, i) => `${i},"row ${i}, with ""quotes"""\n`).join(''),
  );
  assert.equal(sheet.rows.length, 100_000);
  assert.deepEqual(sheet.rows[99_999], ['99999', 'row 99999, with "quotes"']);
});

test('exports hold what the engine said, and nothing else', () => {
  const row = { cells: ['a, b'], line: RESPONSE, answers: answersOf(RESPONSE), message: '' };
  const csv = parseCsv(
    asCsv(['text'], [row, { cells: ['c'], line: null, answers: [], message: 'too long' }], ['n', 'c']),
  );
  assert.deepEqual(csv, [
    ['text', 'n', 'n: true', 'c', 'c: 10', 'c: 2', 'error'],
    ['a, b', 'Yes', '0.9731', '10', '0.5', '0.5', ''],
    ['c', '', '', '', '', '', 'too long'],
  ]);
  const [line] = asJsonLines(['text'], [row]).split('\n');
  assert.equal(writeJson(at(parseJson(line), 'answers')), writeJson(at(RESPONSE, 'answers')));
});

test('clips stay within their tokens, in whole tokens', () => {
  for (const [width, height, frames] of [
    [1920, 1080, 32],
    [640, 480, 2],
    [320, 240, 7],
    [100, 4000, 32],
    [64, 64, 32],
  ]) {
    const size = frameSize(width, height, frames, 1024);
    assert.ok(size.width % 32 === 0 && size.height % 32 === 0 && size.width >= 32 && size.height >= 32);
    assert.ok(
      (size.width / 32) * (size.height / 32) * Math.ceil(frames / 2) <= 1024,
      `${width} x ${height}: ${size.width} x ${size.height}`,
    );
  }
});

test('code carries the request as it is', () => {
  const call = { address: 'http://h:1', query: '', needsKey: false, request: '{\n  "state": "it\'s \\"x\\""\n}' };
  assert.match(asCurl(call), /<<'JSON'\n\{\n {2}"state": "it's \\"x\\""\n\}\nJSON\n$/);
  assert.match(asPython(call), /request = r"""\{\n {2}"state": "it's \\"x\\""\n\}"""/);
  assert.match(asJavaScript(call), /body: JSON\.stringify\(\{\n/);
  assert.match(asJavaScript({ ...call, request: '{"10": 1, "2": 1}' }), /body: "\{\\"10\\": 1, \\"2\\": 1\}"/);
  for (const write of [asCurl, asJavaScript, asPython]) {
    assert.match(write({ ...call, needsKey: true }), /CLEF_API_KEY/);
    assert.doesNotMatch(write(call), /CLEF_API_KEY/);
  }
});

test('numbers know their value', () => assert.equal(new Num('1e-07').value, 1e-7));

const RUN = {
  id: 'a',
  when: 1,
  view: 'ask',
  engine: 'http://gpu:8080',
  query: '?confidence=max',
  request: '{"model":"m","state":1,"questions":{"a":{"type":"noul"}}}',
  response: '{"model":"m","answers":{"a":{"type":"noul","noul":0.5}}}',
  latencyMs: 2.5,
  requestId: '',
  timing: '',
};
const fileOf = (run) => JSON.stringify({ format: 'clef-runs', version: 1, runs: [run] });

test('files of runs are read', () => assert.deepEqual(fromFile(fileOf({ ...RUN, more: 1 })), [RUN]));

test('files of runs bring in nothing that could become other code', () => {
  const bad = [
    { engine: "http://gpu:8080/'; echo x" },
    { engine: 'javascript:alert(1)' },
    { engine: 'http://gpu:8080/path' },
    { query: '?confidence=max&x=$(x)' },
    { query: 'x' },
    { request: '"""' },
    { request: '"x"' },
    { request: '{"questions":1}' },
    { response: '[]' },
    { view: 'other' },
    { when: '1' },
    { latencyMs: null },
    { id: undefined },
  ];
  for (const change of bad)
    assert.throws(() => fromFile(fileOf({ ...RUN, ...change })), /Run 1 of the file/, JSON.stringify(change));
  for (const text of ['', '{}', '[]', 'null', '{"format":"clef-runs","version":2,"runs":[]}'])
    assert.throws(() => fromFile(text), Error, text);
});

test('the page names every module of its first view, so that none waits for another', () => {
  const found = new Set();
  const crawl = (name) => {
    if (found.has(name)) return;
    found.add(name);
    const text = readFileSync(new URL(`./${name}`, import.meta.url), 'utf8');
    for (const [, next] of text.matchAll(/^import [^;]*?'\.\/([a-z_]+\.js)';/gm)) crawl(next);
  };
  crawl('app.js');
  const page = readFileSync(new URL('./index.html', import.meta.url), 'utf8');
  const named = [...page.matchAll(/(?:src|modulepreload" href)="assets\/([a-z_]+\.js)"/g)].map((match) => match[1]);
  assert.deepEqual(named.sort(), [...found].sort());
});
