// See: questions about pictures, a camera, a screen, or a video file.
import { answersOf, topShare } from './answers.js';
import { requestText, runRequest } from './ask_view.js';
import { announce, button, field, fill, h, icon, newId, segments } from './dom.js';
import { sampleClip } from './clip.js';
import { addRun } from './history.js';
import { asText, at, Num, parseJson } from './json.js';
import { notice } from './notice.js';
import { frameOf, ORIGINAL, pictureFiles, pictureOf } from './pictures.js';
import { Problem } from './problem.js';
import { questionEditor } from './question_editor.js';
import { answersPanel, factsOf, milliseconds, runPanel, saidLegend } from './result.js';
import { keyOf } from './settings.js';
import { cameras, close, openCamera, openScreen } from './streams.js';
import { SEE_TEMPLATES } from './templates.js';
import { trend } from './trend.js';

/** @typedef {import('./history.js').Run} Run */
/** @typedef {import('./json.js').Value} Value */
/** @typedef {import('./pictures.js').Picture} Picture */
/** @typedef {import('./clip.js').Clip} Clip */
/** @typedef {'pictures' | 'camera' | 'screen' | 'video'} Source */

// The engine's own limits, unless it was started with others; it refuses what is beyond them, and says so.
const MAX_PICTURES = 4;
const MAX_FRAMES = 32;
const MAX_CLIP_TOKENS = 1024;

/** @type {[number, string][]} */
const SIZES = [[336, '336 px: quick'], [672, '672 px'], [1024, '1024 px: fine'], [ORIGINAL, 'the file as it is']];
/** @type {[number, string][]} */
const RATES = [[0.5, 'every 2 s'], [1, 'once a second'], [2, '2 a second'], [5, '5 a second'], [0, 'as fast as it answers']];

/** @param {[number, string][]} choices @param {number} chosen @param {(value: number) => void} [onchange] */
function select(choices, chosen, onchange) {
  const element = h('select', { onchange: () => onchange?.(Number(element.value)) }, ...choices.map(([value, text]) => h('option', { value, selected: value === chosen }, text)));
  return element;
}

/** @param {string[]} list @returns {Value} */
const urls = (list) => [...list];

/**
 * The request's members that a clip becomes. Its frames are sampled already, so the engine takes them all.
 * @param {Clip} clip
 * @returns {[string, Value][]}
 */
export function clipMembers(clip) {
  const number = (/** @type {number} */ value) => new Num(String(value));
  const video = new Map(/** @type {[string, Value][]} */ ([
    ['frames', urls(clip.frames)],
    ['fps', number(clip.fps)],
    ['frame_indices', clip.frames.map((_, i) => number(i))],
    ['total_num_frames', number(clip.frames.length)],
  ]));
  return [['videos', [video]], ['media_kwargs', new Map([['videos_kwargs', new Map([['do_sample_frames', false]])]])]];
}

/**
 * @param {{ model: () => string }} engine
 */
export function seeView({ model }) {
  /** @type {Source} */
  let source = 'pictures';
  /** @type {{ picture: Picture, file: Blob }[]} */
  let pictures = [];
  /** @type {Clip | null} */
  let clip = null;
  /** @type {MediaStream | null} */
  let stream = null;
  /** @type {AbortController | null} */
  let controller = null;
  let isLive = false;
  /** What requests about the same pictures share, so that an engine may keep what it has seen. */
  let cacheKey = '';
  /** Runs about the pictures that are shown. @type {Run[]} */
  let asked = [];

  const questions = questionEditor({ label: 'Questions', onchange: () => undefined });
  const context = h('textarea', { rows: 2, placeholder: 'optional: what the model should know besides' });
  const output = h('section', { class: 'output', 'aria-label': 'Answers', tabindex: '-1' });
  const stage = h('div', { class: 'stage' });
  const controls = h('div', { class: 'row wrap controls' });
  const message = h('p', { class: 'remark', role: 'status' });
  const video = h('video', { muted: true, playsinline: true, autoplay: true, 'aria-label': 'What is seen' });
  video.muted = true;
  const size = select(SIZES, 1024, () => void resizeAll());
  const liveSize = select(SIZES.filter(([value]) => value !== ORIGINAL), 336);
  const rate = select(RATES, 1);
  const camera = h('select', { 'aria-label': 'Camera', hidden: true, onchange: () => void start('camera') });
  const file = h('input', { type: 'file', accept: 'image/*', multiple: true, id: newId(), class: 'hidden', onchange: () => {
    void addFiles([...(file.files ?? [])]);
    file.value = '';
  } });
  const clipFile = h('input', { type: 'file', accept: 'video/*', id: newId(), class: 'hidden', onchange: () => {
    const [picked] = clipFile.files ?? [];
    if (picked) void readClip(picked);
    clipFile.value = '';
  } });
  const askButton = button('Ask', () => void (controller && !isLive ? controller.abort() : ask()), { class: 'primary ask' });
  const liveButton = button('Ask live', () => void (isLive ? stopLive() : live()), { icon: 'play' });
  const livePanel = { answers: answersPanel(), trend: trend(), facts: h('div') };

  /** The pictures have changed: nothing asked so far is about them. */
  function renew() {
    cacheKey = `web-${Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => byte.toString(16).padStart(2, '0')).join('')}`;
    asked = [];
  }

  /** @param {Blob[]} files */
  async function addFiles(files) {
    if (source !== 'pictures') show('pictures');
    message.textContent = '';
    for (const one of files) {
      if (pictures.length >= MAX_PICTURES) {
        message.textContent = `${MAX_PICTURES} pictures are as many as an engine takes by itself; the others are left out.`;
        break;
      }
      try {
        pictures.push({ picture: await pictureOf(one, Number(size.value)), file: one });
        renew();
      } catch (error) {
        message.textContent = error instanceof Error ? error.message : String(error);
      }
    }
    drawStage();
  }

  async function resizeAll() {
    const files = pictures.map((one) => one.file);
    pictures = [];
    await addFiles(files);
  }

  /** @param {File} picked */
  async function readClip(picked) {
    controller?.abort();
    const mine = new AbortController();
    controller = mine;
    clip = null;
    try {
      clip = await sampleClip(picked, {
        fps: Number(clipRate.value), maxFrames: MAX_FRAMES, maxTokens: MAX_CLIP_TOKENS, signal: mine.signal,
        onprogress: (done, all) => {
          message.textContent = `${picked.name}: frame ${done} of ${all}`;
        },
      });
      message.textContent = `${picked.name}: ${clip.frames.length} frames of ${clip.width} x ${clip.height}, ${clip.fps.toFixed(2)} a second`;
      renew();
    } catch (error) {
      if (!mine.signal.aborted) message.textContent = `${picked.name}: ${error instanceof Error ? error.message : error}`;
    } finally {
      if (controller === mine) controller = null;
    }
    drawStage();
  }
  const clipRate = select([[1, '1 frame a second'], [2, '2 frames a second'], [4, '4 frames a second']], 2);

  /** @param {'camera' | 'screen'} which */
  async function start(which) {
    stop();
    message.textContent = '';
    try {
      stream = await (which === 'camera' ? openCamera(camera.value) : openScreen());
      const [track] = stream.getVideoTracks();
      track.addEventListener('ended', () => {
        stop();
        drawStage();
      });
      video.srcObject = stream;
      await video.play();
      renew();
      if (which === 'camera') {
        const found = await cameras();
        const used = track.getSettings().deviceId;
        fill(camera, ...found.map(({ deviceId, label }) => h('option', { value: deviceId, selected: deviceId === used }, label)));
        camera.hidden = found.length < 2;
      }
    } catch (error) {
      stop();
      message.textContent = error instanceof Error ? error.message : String(error);
    }
    drawStage();
  }

  function stop() {
    stopLive();
    if (stream) close(stream);
    stream = null;
    video.srcObject = null;
  }

  const isStream = () => source === 'camera' || source === 'screen';

  function drawStage() {
    askButton.disabled = source === 'pictures' ? pictures.length === 0 : source === 'video' ? clip === null : stream === null;
    liveButton.hidden = !isStream();
    liveButton.disabled = stream === null;
    stage.classList.toggle('is-empty', askButton.disabled);
    if (source === 'pictures') {
      fill(controls, h('label', { class: 'button', for: file.id }, icon('picture'), 'Choose pictures'), file, field('Longest side', size));
      fill(stage, ...(pictures.length === 0
        ? [h('p', {}, icon('picture'), 'Drop pictures here, or paste one.')]
        : pictures.map(({ picture }, i) => h('figure', { class: 'thumb' },
            h('img', { src: picture.url, alt: picture.name }),
            h('figcaption', {}, `${picture.width} x ${picture.height}`),
            button(`Remove ${picture.name}`, () => {
              pictures.splice(i, 1);
              renew();
              drawStage();
            }, { icon: 'close', quiet: true, class: 'tiny' })))));
    } else if (source === 'video') {
      fill(controls, h('label', { class: 'button', for: clipFile.id }, icon('film'), 'Choose a video'), clipFile, field('Sampled at', clipRate));
      fill(stage, ...(clip
        ? clip.frames.map((url, i) => h('figure', { class: 'frame' }, h('img', { src: url, alt: `Frame at ${clip?.times[i].toFixed(1)} s` }), h('figcaption', {}, `${clip?.times[i].toFixed(1)} s`)))
        : [h('p', {}, icon('film'), 'A video is sampled to frames in this browser; only those are sent.')]));
    } else {
      const which = source;
      fill(controls,
        stream ? button('Turn off', () => { stop(); drawStage(); }, { icon: 'stop' }) : button(which === 'camera' ? 'Turn on the camera' : 'Share a screen', () => void start(which), { icon: which }),
        which === 'camera' ? camera : null, field('Longest side', liveSize), field('Live', rate));
      fill(stage, stream ? video : h('p', {}, icon(which), which === 'camera' ? 'Frames go to the engine only when you ask.' : 'Share a window or a screen, and ask about what is on it.'));
      if (stream) void video.play().catch(() => undefined);
    }
  }

  /** @param {Source} next */
  function show(next) {
    if (next !== source) stop();
    source = next;
    sources.set(next);
    message.textContent = '';
    drawStage();
  }
  const sources = segments('What is seen', [['pictures', 'Pictures'], ['camera', 'Camera'], ['screen', 'Screen'], ['video', 'Video']], /** @type {Source} */ (source), show);

  /** @returns {[string, Value][]} */
  function media() {
    if (source === 'video' && clip) return clipMembers(clip);
    const seen = isStream() ? [frameOf(video, Number(liveSize.value), source)] : pictures.map((one) => one.picture);
    return [['images', urls(seen.map((one) => one.url))]];
  }

  /** @returns {string | null} null when the questions are not ready, which the page then says */
  function request() {
    const flaws = questions.flaws();
    if (flaws.length > 0) {
      questions.tell();
      fill(output, notice(new Problem('This cannot be asked yet', { flaws, status: 422 })));
      return null;
    }
    return requestText([['state', context.value], ...media(), ['questions', questions.value()]], model());
  }

  /** @param {Run} run */
  function showRun(run) {
    const others = asked.filter((one) => one !== run);
    fill(output,
      runPanel(run, { needsKey: keyOf(run.engine) !== '' }),
      others.length === 0 ? null : h('div', { class: 'asked' },
        h('h2', { class: 'label' }, 'Asked before about the same'),
        h('ul', {}, ...others.map((one) => h('li', {}, button('', () => showRun(one), { class: 'summary' }), h('span', { class: 'remark' }, `${milliseconds(one.latencyMs)} ms`))))));
    output.querySelectorAll('.asked button').forEach((element, i) => {
      const answers = answersOf(parseJson(others[i].response));
      fill(element, ...answers.map((answer) => h('span', {}, `${answer.id} `, h('strong', {}, answer.verdict), ` ${topShare(answer)?.probability.text ?? ''}`)));
    });
  }

  async function ask() {
    if (askButton.disabled) return;
    stopLive();
    if (isStream()) renew();
    const text = request();
    if (text === null) return;
    controller = new AbortController();
    const { signal } = controller;
    fill(askButton, 'Stop');
    output.setAttribute('aria-busy', 'true');
    try {
      const run = await runRequest(text, 'see', { signal, cacheKey });
      asked.unshift(run);
      showRun(run);
      announce('Answered');
    } catch (error) {
      if (!signal.aborted) fill(output, notice(error, { onretry: () => void ask() }));
    } finally {
      controller = null;
      fill(askButton, 'Ask');
      output.removeAttribute('aria-busy');
    }
  }

  function stopLive() {
    if (!isLive) return;
    isLive = false;
    controller?.abort();
    fill(liveButton, icon('play'), 'Ask live');
  }

  /** One request after the other, never two at once. */
  async function live() {
    if (request() === null) return;
    isLive = true;
    fill(liveButton, icon('pause'), 'Stop');
    livePanel.answers.clear();
    livePanel.trend.clear();
    const warning = h('div');
    const keep = button('Keep this frame', async () => {
      if (!last) return;
      await addRun(last);
      announce('Kept in the history');
    }, { icon: 'pin', class: 'link' });
    fill(output, h('div', { class: 'row between wrap' }, livePanel.facts, keep), warning, livePanel.answers.element, livePanel.trend.element, saidLegend());
    /** @type {Run | null} */
    let last = null;
    let count = 0;
    const began = performance.now();
    while (isLive) {
      const frameTime = performance.now();
      const text = request();
      if (text === null) break;
      const mine = new AbortController();
      controller = mine;
      let pause = 0;
      try {
        last = await runRequest(text, 'see', { signal: mine.signal, keeps: false });
        count += 1;
        const answers = answersOf(parseJson(last.response));
        livePanel.answers.show(answers);
        livePanel.trend.add(answers);
        const each = (performance.now() - began) / count;
        fill(livePanel.facts, factsOf(last), h('p', { class: 'remark' }, h('span', { class: 'number is-derived' }, `${(1000 / each).toFixed(1)}`), ` answers a second, ${count} so far`));
        fill(warning);
      } catch (error) {
        if (mine.signal.aborted) break;
        fill(warning, notice(error));
        if (!(error instanceof Problem) || !error.isTransient) break;
        pause = error.retryAfterMs ?? 2000;
      }
      const period = Number(rate.value) > 0 ? 1000 / Number(rate.value) : 0;
      await new Promise((resolve) => setTimeout(resolve, Math.max(pause, period - (performance.now() - frameTime))));
    }
    stopLive();
    controller = null;
  }

  const templates = h('div', { class: 'row wrap templates', role: 'group', 'aria-label': 'Templates' },
    ...SEE_TEMPLATES.map((template) => button(template.name, () => {
      questions.set(template.questions);
      announce(`Template ${template.name}`);
    }, { class: 'chip' })));
  questions.set(SEE_TEMPLATES[0].questions);
  fill(output, h('div', { class: 'empty' },
    h('p', { class: 'title' }, 'Ask what a picture shows.'),
    h('p', {}, 'Pictures, frames and recordings go to the engine that you use, and nowhere else.')));

  const element = h('div', { class: 'view see-view' },
    h('section', { class: 'input', 'aria-label': 'What is seen, and questions' },
      h('h1', { class: 'hidden' }, 'See'),
      h('div', { class: 'field' }, h('div', { class: 'row between wrap' }, sources.element), stage, controls, message),
      templates, questions.element, field('Context', context),
      h('div', { class: 'row submit' }, askButton, liveButton)),
    output);
  element.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      void ask();
    }
  });
  element.addEventListener('dragover', (event) => {
    event.preventDefault();
    stage.classList.add('is-target');
  });
  element.addEventListener('dragleave', () => stage.classList.remove('is-target'));
  element.addEventListener('drop', (event) => {
    event.preventDefault();
    stage.classList.remove('is-target');
    void addFiles(pictureFiles(event.dataTransfer));
  });
  document.addEventListener('paste', (event) => {
    const found = element.isConnected ? pictureFiles(event.clipboardData) : [];
    if (found.length > 0) void addFiles(found);
  });
  renew();
  drawStage();

  return {
    element,
    hide: () => {
      stop();
      drawStage();
    },
    /** @param {Run} run */
    async restore(run) {
      const body = parseJson(run.request);
      context.value = asText(at(body, 'state')) ?? '';
      questions.setWire(at(body, 'questions') ?? null);
      const images = at(body, 'images');
      pictures = [];
      show('pictures');
      for (const url of Array.isArray(images) ? images : []) {
        if (typeof url !== 'string') continue;
        const blob = await (async () => dataBlob(url))();
        if (blob) await addFiles([Object.assign(blob, { name: 'picture' })]);
      }
      asked = [run];
      showRun(run);
    },
  };
}

/** The bytes of a data URL. @param {string} url */
function dataBlob(url) {
  const found = /^data:([a-z]+\/[a-z0-9.+-]+);base64,(.*)$/s.exec(url);
  if (!found) return null;
  try {
    return new Blob([Uint8Array.from(atob(found[2]), (character) => character.charCodeAt(0))], { type: found[1] });
  } catch {
    return null;
  }
}
