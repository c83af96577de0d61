import { createTypeSafeAi } from '@ai-sdk/typesafe-ai';
import * as typesafe from '@typesafe-ai/sdk';
import { experimental_decide as decide } from 'ai';
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { after, before, test } from 'node:test';

import { RunningServer } from './running_server.mjs';

const [program, model] = process.argv.slice(2);
const KEY = 'a-key-for-tests';
const KEYS = `tests ${KEY}\nslow a-slow-key-for-tests rate=1 burst=1\npatient a-patient-key-for-tests rate=1 burst=1\n`;

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
  assert.ok(names.includes('jev-latest'), names.join());
});

// One sentence, and the id that the access log has.
async function refused(promise, kind, status, message) {
  const error = await promise.then(() => assert.fail('was answered'), (reason) => reason);
  assert.ok(error instanceof kind, `${error.constructor.name}: ${error.message}`);
  assert.equal(error.status ?? error.statusCode, status);
  assert.match(error.message, message);
  assert.doesNotMatch(error.message, /[{}]/, 'no raw JSON');
  return error;
}

test('@typesafe-ai/sdk: each class of errors, with its message and request id', async () => {
  const once = { maxRetries: 0 };
  const ask = (client, questions, more = {}) => client.systemOne({ state: 's', questions, ...more });
  const good = { a: typesafe.noul('Is it?') };
  const errors = [
    await refused(ask(sdk(once), { a: { type: 'choice', criteria: { x: null } } }), typesafe.UnprocessableEntityError, 422,
      /questions\.a\.criteria: need 2 to 255 options/),
    await refused(ask(sdk({ ...once, apiKey: 'not-a-key-at-all' }), good), typesafe.AuthenticationError, 401, /API key/),
    await refused(ask(sdk(once), good, { model: 'gpt' }), typesafe.NotFoundError, 404, /'gpt' is not served/),
    await refused(ask(sdk(once), good, { state: 'word '.repeat(20_000) }), typesafe.APIError ?? Error, 413, /9000/),
  ];
  const slow = sdk({ ...once, apiKey: 'a-slow-key-for-tests' });
  // All at once: one may pass, and on a slow machine another one for each second that sending them takes.
  const outcomes = await Promise.allSettled(Array.from({ length: 24 }, () => ask(slow, good)));
  const rejected = outcomes.find((outcome) => outcome.status === 'rejected');
  assert.ok(rejected, 'a rate of one a second lets all pass');
  const limited = await refused(Promise.reject(rejected.reason), typesafe.RateLimitError, 429, /rate/);
  assert.ok(limited.retryAfterMs > 0 && limited.retryAfterMs <= 1000, `retryAfterMs ${limited.retryAfterMs}`);
  errors.push(limited);
  for (const error of errors) assert.match(error.requestId ?? error.requestID ?? error.request_id ?? '', /^req_/);
});

test('@typesafe-ai/sdk: waits and tries again after 429', async () => {
  const patient = sdk({ apiKey: 'a-patient-key-for-tests', maxRetries: 8 });
  const asked = [1, 2, 3].map(() => patient.systemOne({ state: 's', questions: { a: typesafe.noul('Is it?') } }));
  for (const { answers } of await Promise.all(asked)) assert.ok(answers.a.noul >= 0);
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
  assert.equal(answers.intent.type, 'choice');
});

test('@ai-sdk/typesafe-ai: 255 options', async () => {
  const { answers } = await decide({
    model: provider().evaluationModel('jev-latest'),
    state: 's',
    questions: { q: { type: 'choice', instructions: 'Which?', criteria: labels(255) } },
  });
  assert.equal(Object.keys(answers.q.probabilities ?? answers.q.distribution).length, 255);
});

test('@ai-sdk/typesafe-ai: errors are one sentence', async () => {
  const ask = (options, criteria, state = 's') => decide({
    model: provider(options).evaluationModel('jev-latest'),
    state,
    maxRetries: 0,
    questions: { a: { type: 'choice', instructions: 'Which?', criteria } },
  });
  await refused(ask({ apiKey: 'not-a-key-at-all' }, labels(2)), Error, 401, /API key/);
  await refused(ask({}, labels(2), 'word '.repeat(20_000)), Error, 413, /9000/);
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
