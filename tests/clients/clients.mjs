import { createTypeSafeAi } from '@ai-sdk/typesafe-ai';
import * as typesafe from '@typesafe-ai/sdk';
import { APICallError, experimental_decide as decide } from 'ai';
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';

import { RunningServer } from './running_server.mjs';

const [program, model] = process.argv.slice(2);
const KEY = 'a-key-for-tests';
const KEYS = `tests ${KEY}\nslow a-slow-key-for-tests rate=1 burst=1\n` +
  'patient a-patient-key-for-tests rate=1 burst=1\ncalm a-calm-key-for-tests rate=1 burst=1\n';

let server;
before(async () => {
  server = await RunningServer.start(program, model, ['--max-length', '9000', '--max-body', '1000000'], KEYS);
});
after(async () => assert.equal(await server.stop(), 0, 'the server ends in order'));

const sdk = (options = {}) => new typesafe.TypeSafeClient({ apiKey: KEY, baseURL: server.url, ...options });
const provider = (options = {}) => createTypeSafeAi({ apiKey: KEY, baseURL: `${server.url}/v1`, ...options });

const STATE = { subject: 'Refund?', body: 'It never came.' };
const labels = (count) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`label ${i}`, null]));
const sum = (numbers) => Object.values(numbers).reduce((a, b) => a + b, 0);

test('@typesafe-ai/sdk: choice, score and noul in one call', async () => {
  const { answers, usage } = await sdk().systemOne({
    state: STATE,
    questions: {
      intent: typesafe.choice('What do they want?', { refund: 'Their money', track: 'To know where it is' }),
      anger: typesafe.score('How angry?', ['calm', 'annoyed', 'furious']),
      refund: typesafe.noul('Is it about a refund?'),
    },
  });
  assert.deepEqual(Object.keys(answers), ['intent', 'anger', 'refund']);
  assert.ok(['refund', 'track'].includes(answers.intent.choice));
  assert.ok(Math.abs(sum(answers.intent.probabilities) - 1) < 0.001);
  assert.ok(answers.anger.score >= 0 && answers.anger.score <= 2);
  assert.deepEqual(Object.values(answers.anger.legend), ['calm', 'annoyed', 'furious']);
  assert.ok(answers.refund.noul >= 0 && answers.refund.noul <= 1);
  const tokens = usage.inputTokens ?? usage.input_tokens;
  assert.ok(Number.isInteger(tokens) && tokens > 100);
});

test('@typesafe-ai/sdk: 255 options', async () => {
  const { answers } = await sdk({ timeout: 120_000 }).systemOne(
    { state: 's', questions: { q: typesafe.choice('Which?', labels(255)) } }, { timeout: 120_000 });
  assert.equal(Object.keys(answers.q.probabilities).length, 255);
});

test('@typesafe-ai/sdk: models.list()', async () => {
  const listed = await sdk().models.list();
  const names = (listed.models ?? listed).map((one) => one.name);
  assert.deepEqual(names, ['clef-tiny', 'jev-latest']);
  for (const one of listed.models ?? listed) assert.match(one.releaseDate ?? one.release_date, /^\d{4}-\d\d-\d\d$/);
});

// The class of the error, one sentence, and the id that the access log has beside the same status.
async function refused(promise, kind, status, message, at = server) {
  const error = await promise.then(() => assert.fail('was answered'), (reason) => reason);
  assert.equal(error.constructor.name, kind.name, `${error.message}`);
  assert.equal(error.status ?? error.statusCode, status);
  assert.match(error.message, message);
  assert.doesNotMatch(error.message, /[{}]/, 'no raw JSON');
  const id = error.requestId ?? error.responseHeaders?.['x-typesafe-request-id'];
  assert.match(id ?? '', /^req_[0-9a-f]{32}$/);
  await logged(id, status, at);
  return error;
}

// A line is written when the last byte of the answer is out, which its reader may see first.
async function logged(id, status, at = server) {
  const find = () => at.lines().find((line) => line.request_id === id);
  while (!find()) await new Promise((resolve) => setImmediate(resolve));
  assert.equal(find().status, status);
}

const statusesOf = (key) => server.lines().filter((line) => line.key === key).map((line) => line.status);

const once = { maxRetries: 0 };
const ask = (client, questions, more = {}, options = {}) => client.systemOne({ state: 's', questions, ...more }, options);
const good = { a: typesafe.noul('Is it?') };
const nested = (depth) => JSON.parse('['.repeat(depth) + ']'.repeat(depth));

test('@typesafe-ai/sdk: each class of errors, with its message and request id', async () => {
  const bad = (criteria, type = 'choice') => ask(sdk(once), { a: { type, criteria } });
  await refused(ask(sdk(once), good, { state: nested(600) }), typesafe.BadRequestError, 400, /json: .*nest/i);
  await refused(ask(sdk({ ...once, apiKey: 'not-a-key-at-all' }), good), typesafe.AuthenticationError, 401, /API key/);
  await refused(ask(sdk(once), good, {}, { headers: { Origin: 'https://evil.example' } }), typesafe.PermissionDeniedError, 403,
    /origin/);
  await refused(ask(sdk(once), good, { model: 'gpt' }), typesafe.NotFoundError, 404, /'gpt' is not served/);
  await refused(ask(sdk(once), good, { state: 'word '.repeat(20_000) }), typesafe.APIError, 413, /8796 fit \(max 9000 tokens/);
  await refused(bad({ x: null }), typesafe.UnprocessableEntityError, 422, /questions\.a\.criteria: need 2 to 255 options, got 1/);
  await refused(bad(labels(256)), typesafe.UnprocessableEntityError, 422, /need 2 to 255 options, got 256/);
  await refused(bad(Array(11).fill('x'), 'score'), typesafe.UnprocessableEntityError, 422, /need 2 to 10 levels, got 11/);
  await refused(bad(undefined, 'maybe'), typesafe.UnprocessableEntityError, 422, /questions\.a\.type: .*noul, choice, or score/);
  const slow = sdk({ ...once, apiKey: 'a-slow-key-for-tests' });
  // All at once: one may pass, and on a slow machine another one for each second that sending them takes.
  const outcomes = await Promise.allSettled(Array.from({ length: 24 }, () => ask(slow, good)));
  const rejected = outcomes.find((outcome) => outcome.status === 'rejected');
  assert.ok(rejected, 'a rate of one a second lets all pass');
  const limited = await refused(Promise.reject(rejected.reason), typesafe.RateLimitError, 429, /rate/);
  assert.ok(limited.retryAfterMs > 0 && limited.retryAfterMs <= 1000, `retryAfterMs ${limited.retryAfterMs}`);
});

test('@typesafe-ai/sdk: InternalServerError when the answer is late', async () => {
  const hasty = await RunningServer.start(program, model, ['--request-timeout', '1', '--max-length', '9000'], KEYS);
  try {
    const client = sdk({ ...once, baseURL: hasty.url });
    // More work than any machine does in a second.
    const late = { state: 'word '.repeat(2_500), questions: { q: typesafe.choice('Which?', labels(100)) } };
    const outcomes = await Promise.allSettled(Array.from({ length: 28 }, () => client.systemOne(late)));
    const rejected = outcomes.find((outcome) => outcome.status === 'rejected');
    assert.ok(rejected, 'all were answered in a second');
    await refused(Promise.reject(rejected.reason), typesafe.InternalServerError, 504, /not ready in time|deadline/, hasty);
  } finally {
    assert.equal(await hasty.stop(), 0);
  }
});

test('@typesafe-ai/sdk: waits and tries again after 429', async () => {
  const patient = sdk({ apiKey: 'a-patient-key-for-tests', maxRetries: 8 });
  const asked = [1, 2, 3].map(() => ask(patient, good));
  for (const { answers } of await Promise.all(asked)) assert.ok(answers.a.noul >= 0);
  const statuses = statusesOf('patient');
  assert.ok(statuses.includes(429), `no 429 among ${statuses}`);
  assert.ok(statuses.filter((status) => status === 200).length >= 2, `${statuses}`);
});

test('@ai-sdk/typesafe-ai: choice, score and boolean in one call', async () => {
  const { answers } = await decide({
    model: provider().evaluationModel('jev-latest'),
    state: STATE,
    questions: {
      intent: { type: 'choice', instructions: 'What do they want?', criteria: { refund: 'Money', track: 'News' } },
      anger: { type: 'score', instructions: 'How angry?', criteria: ['calm', 'annoyed', 'furious'] },
      refund: { type: 'boolean', instructions: 'Is it about a refund?' },
    },
  });
  assert.deepEqual(Object.keys(answers), ['intent', 'anger', 'refund']);
  assert.ok(['refund', 'track'].includes(answers.intent.choice ?? answers.intent.value), JSON.stringify(answers.intent));
  const score = answers.anger.score ?? answers.anger.value;
  assert.ok(score >= 0 && score <= 2, JSON.stringify(answers.anger));
  assert.equal(answers.refund.type, 'boolean');
});

test('@ai-sdk/typesafe-ai: 255 options', async () => {
  const { answers } = await decide({
    model: provider().evaluationModel('jev-latest'),
    state: 's',
    questions: { q: { type: 'choice', instructions: 'Which?', criteria: labels(255) } },
  });
  assert.equal(Object.keys(answers.q.probabilities ?? answers.q.distribution).length, 255);
});

test('@ai-sdk/typesafe-ai: errors are one sentence with a request id', async () => {
  const decideOn = (options, criteria, { state = 's', name = 'jev-latest', ...more } = {}) => decide({
    model: provider(options).evaluationModel(name),
    state,
    maxRetries: 0,
    questions: { a: { type: 'choice', instructions: 'Which?', criteria } },
    ...more,
  });
  await refused(decideOn({}, labels(2), { state: nested(600) }), APICallError, 400, /json: .*nest/i);
  await refused(decideOn({ apiKey: 'not-a-key-at-all' }, labels(2)), APICallError, 401, /API key/);
  await refused(decideOn({}, labels(2), { name: 'gpt' }), APICallError, 404, /'gpt' is not served/);
  await refused(decideOn({}, labels(2), { state: 'word '.repeat(20_000) }), APICallError, 413, /9000/);
  await refused(decideOn({}, labels(1)), APICallError, 422, /questions\.a\.criteria: need 2 to 255 options, got 1/);
});

test('@ai-sdk/typesafe-ai: waits and tries again after 429', async () => {
  const questions = { a: { type: 'boolean', instructions: 'Is it?' } };
  const evaluation = provider({ apiKey: 'a-calm-key-for-tests' }).evaluationModel('jev-latest');
  const asked = [1, 2, 3].map(() => decide({ model: evaluation, state: 's', questions, maxRetries: 8 }));
  for (const { answers } of await Promise.all(asked)) assert.equal(answers.a.type, 'boolean');
  const statuses = statusesOf('calm');
  assert.ok(statuses.includes(429), `no 429 among ${statuses}`);
});

const openai = await import('openai').catch((error) => error);
const noOpenai = openai.OpenAI || openai.default ? false : `openai could not be loaded on node ${process.version} (it asks for 22)`;
if (noOpenai) console.error(`SKIPPED: /v1/decisions was NOT tried with openai: ${noOpenai}`);

test('openai: decisions.create', { skip: noOpenai }, async () => {
  const OpenAI = openai.OpenAI ?? openai.default;
  const client = new OpenAI({ apiKey: KEY, baseURL: `${server.url}/v1` });
  const { answers } = await client.decisions.create({
    model: 'jev-latest',
    input: 'It never came.',
    questions: [
      { type: 'predicate', instructions: 'Is it about a refund?' },
      { type: 'choice', name: 'c', instructions: 'What?', choices: [{ value: 'refund' }, { value: true }] },
      { type: 'score', instructions: 'How angry?', levels: [{ label: 'calm' }, { label: 'furious' }] },
    ],
  });
  assert.deepEqual(answers.map((one) => one.type), ['predicate', 'choice', 'score']);
  assert.deepEqual(answers.map((one) => one.name), [null, 'c', null]);
  assert.deepEqual(answers[1].probabilities.map((one) => one.value), ['refund', true]);
  const questions = [{ type: 'choice', instructions: 'What?', choices: [{ value: 'alone' }] }];
  const error = await client.decisions.create({ model: 'jev-latest', input: 's', questions }).catch((reason) => reason);
  assert.equal(error.constructor, OpenAI.UnprocessableEntityError, `${error}`);
  assert.match(error.message, /need 2 to 255 choices, got 1/);
  const stranger = new OpenAI({ apiKey: 'not-a-key-at-all', baseURL: `${server.url}/v1`, maxRetries: 0 });
  await assert.rejects(stranger.models.list(), OpenAI.AuthenticationError);
  const listed = await client.models.list();
  assert.ok(listed.data.some((one) => one.id === 'jev-latest'));
});

const curl = (...args) => execFileSync('curl', ['-sS', '--max-time', '60', ...args], { encoding: 'utf8' });
const AUTHORIZATION = ['-H', `Authorization: Bearer ${KEY}`];
const BODY = JSON.stringify({ model: 'jev-latest', state: 's', questions: { a: { type: 'noul' } } });

test('curl: a request, alone and compressed', () => {
  const url = `${server.url}/v1/systemone`;
  const plain = curl(...AUTHORIZATION, url, '-d', BODY);
  assert.equal(JSON.parse(plain).answers.a.type, 'noul');
  const gzip = execFileSync('gzip', ['-c'], { input: BODY });
  const compressed = execFileSync('curl', ['-sS', ...AUTHORIZATION, url, '-H', 'Content-Encoding: gzip', '--data-binary', '@-'],
    { input: gzip, encoding: 'utf8' });
  assert.equal(compressed, plain);
});

test('curl: a large body, announced with Expect', () => {
  const padded = BODY.replace('{', '{' + ' '.repeat(900_000));
  const answer = execFileSync('curl', ['-sS', ...AUTHORIZATION, `${server.url}/v1/systemone`, '-H', 'Expect: 100-continue', '-d', '@-'],
    { input: padded, encoding: 'utf8' });
  assert.equal(JSON.parse(answer).answers.a.type, 'noul');
});

test('curl: a batch', () => {
  const lines = curl(...AUTHORIZATION, `${server.url}/v1/systemone/batch`, '--data-binary', `${BODY}\nnonsense\n${BODY}\n`)
    .trim().split('\n').map((line) => JSON.parse(line)).sort((a, b) => a.index - b.index);
  assert.equal(lines.length, 3);
  assert.equal(lines[1].error.status, 400);
  assert.deepEqual(lines[0].answers, lines[2].answers);
});

test('curl: a body in chunks, HEAD, and HTTP/1.0', () => {
  const url = `${server.url}/v1/systemone`;
  const plain = curl(...AUTHORIZATION, url, '-d', BODY);
  assert.equal(curl(...AUTHORIZATION, url, '-H', 'Transfer-Encoding: chunked', '-d', BODY), plain);
  assert.equal(curl(...AUTHORIZATION, url, '--http1.0', '-d', BODY), plain);
  assert.match(curl('--head', `${server.url}/health`), /^HTTP\/1\.1 200 OK\r\n/);
});

const noWrk = spawnSync('wrk', ['--version']).error ? 'wrk is not installed' : false;
if (noWrk) console.error(`SKIPPED: many connections at once were NOT tried: ${noWrk}`);

test('wrk: many connections at once, all answered', { skip: noWrk }, () => {
  const script = join(server.folder, 'ask.lua');
  writeFileSync(script, `wrk.method = "POST"
wrk.headers["Authorization"] = "Bearer ${KEY}"
wrk.body = '${BODY}'
done = function(summary)
  local e = summary.errors
  io.write(string.format("answered %d, errors %d\\n", summary.requests, e.connect + e.read + e.write + e.status + e.timeout))
end
`);
  const run = (seconds) => execFileSync('wrk',
    ['-t1', '-c16', `-d${seconds}s`, '--timeout', '60s', '-s', script, `${server.url}/v1/systemone`], { encoding: 'utf8' });
  // wrk counts what is answered in the time that it is given, and a busy machine may need more of it.
  let out = run(2);
  for (let seconds = 4; seconds <= 64 && /^answered 0,/m.test(out); seconds *= 2) out = run(seconds);
  assert.match(out, /^answered [1-9]\d*, errors 0$/m, out);
});
