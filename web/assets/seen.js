// What is seen: pictures, a camera, a screen, or the frames of a video file; one of them at a time.
import { sampleClip } from './clip.js';
import { button, field, fill, h, icon, newId, segments } from './dom.js';
import { Num } from './json.js';
import { dataBlob, frameOf, ORIGINAL, pictureFiles, pictureOf } from './pictures.js';
import { cameras, close, openCamera, openScreen } from './streams.js';

/** @typedef {import('./json.js').Value} Value */
/** @typedef {import('./pictures.js').Picture} Picture */
/** @typedef {import('./clip.js').Clip} Clip */
/** @typedef {'pictures' | 'camera' | 'screen' | 'video'} Source */

// The engine's own limits, unless it was started with others; it refuses what is beyond them, and says so.
const MAX_PICTURES = 4;
const MAX_FRAMES = 32;
const MAX_CLIP_TOKENS = 1024;

/** @type {[number, string][]} */
const SIZES = [
  [336, '336 px: quick'],
  [672, '672 px'],
  [1024, '1024 px: fine'],
  [ORIGINAL, 'the file as it is'],
];
/** @type {[number, string][]} */
const CLIP_RATES = [
  [1, '1 frame a second'],
  [2, '2 frames a second'],
  [4, '4 frames a second'],
];

/** @type {[Source, string][]} */
const SOURCES = [
  ['pictures', 'Pictures'],
  ['camera', 'Camera'],
  ['screen', 'Screen'],
  ['video', 'Video'],
];

/**
 * @param {[number, string][]} choices
 * @param {number} chosen
 * @param {() => void} [onchange]
 */
export const numberSelect = (choices, chosen, onchange) =>
  h(
    'select',
    { onchange },
    ...choices.map(([value, text]) => h('option', { value, selected: value === chosen }, text)),
  );

/**
 * The request's members that a clip becomes. Its frames are sampled already, so the engine takes them all.
 * @param {Clip} clip
 * @returns {[string, Value][]}
 */
function clipMembers(clip) {
  const number = (/** @type {number} */ value) => new Num(String(value));
  /** @type {Map<string, Value>} */
  const video = new Map();
  video.set('frames', [...clip.frames]);
  video.set('fps', number(clip.fps));
  video.set(
    'frame_indices',
    clip.frames.map((_, i) => number(i)),
  );
  video.set('total_num_frames', number(clip.frames.length));
  const settings = new Map([['videos_kwargs', new Map([['do_sample_frames', false]])]]);
  return [
    ['videos', [video]],
    ['media_kwargs', settings],
  ];
}

/**
 * @param {object} options
 * @param {() => void} options.onchange something else is seen, or nothing
 * @param {() => void} options.onend a stream ends
 * @param {(string | Node)[]} options.streamControls shown beside a stream's own
 */
export function seenPanel({ onchange, onend, streamControls }) {
  /** @type {Source} */
  let source = 'pictures';
  /** @type {{ picture: Picture, file: Blob }[]} */
  let pictures = [];
  /** @type {Clip | null} */
  let clip = null;
  let clipController = new AbortController();
  /** @type {MediaStream | null} */
  let stream = null;

  const stage = h('div', { class: 'stage' });
  const controls = h('div', { class: 'row wrap controls' });
  const message = h('p', { class: 'remark', role: 'status' });
  const video = h('video', { muted: true, playsinline: true, autoplay: true, 'aria-label': 'What is seen' });
  video.muted = true;
  const size = numberSelect(SIZES, 1024, () => void resizeAll());
  const streamSize = numberSelect(SIZES.slice(0, -1), 336);
  const clipRate = numberSelect(CLIP_RATES, 2);
  const camera = h('select', { 'aria-label': 'Camera', hidden: true, onchange: () => void start('camera') });
  const file = h('input', {
    type: 'file',
    accept: 'image/*',
    multiple: true,
    id: newId(),
    class: 'hidden',
    onchange: () => {
      void addFiles([...(file.files ?? [])]);
      file.value = '';
    },
  });
  const clipFile = h('input', {
    type: 'file',
    accept: 'video/*',
    id: newId(),
    class: 'hidden',
    onchange: () => {
      const [picked] = clipFile.files ?? [];
      if (picked) void readClip(picked);
      clipFile.value = '';
    },
  });

  const isStream = () => source === 'camera' || source === 'screen';
  const isEmpty = () => (isStream() ? stream === null : source === 'video' ? clip === null : pictures.length === 0);
  /** @param {unknown} error */
  const tell = (error) => (message.textContent = error instanceof Error ? error.message : String(error));

  function changed() {
    draw();
    onchange();
  }

  /** @param {Blob[]} files */
  async function addFiles(files) {
    if (source !== 'pictures') show('pictures');
    message.textContent = '';
    for (const one of files) {
      if (pictures.length >= MAX_PICTURES) {
        tell(`${MAX_PICTURES} pictures are as many as an engine takes by itself; the others are left out.`);
        break;
      }
      try {
        pictures.push({ picture: await pictureOf(one, Number(size.value)), file: one });
      } catch (error) {
        tell(error);
      }
    }
    changed();
  }

  async function resizeAll() {
    const files = pictures.map((one) => one.file);
    pictures = [];
    await addFiles(files);
  }

  /** @param {File} picked */
  async function readClip(picked) {
    clipController.abort();
    const { signal } = (clipController = new AbortController());
    clip = null;
    changed();
    try {
      const onprogress = (/** @type {number} */ done, /** @type {number} */ all) =>
        tell(`${picked.name}: frame ${done} of ${all}`);
      const limits = { maxFrames: MAX_FRAMES, maxTokens: MAX_CLIP_TOKENS };
      clip = await sampleClip(picked, { fps: Number(clipRate.value), ...limits, onprogress, signal });
      const { frames, width, height, fps } = clip;
      tell(`${picked.name}: ${frames.length} frames of ${width} x ${height}, ${fps.toFixed(2)} a second`);
    } catch (error) {
      if (signal.aborted) return;
      tell(`${picked.name}: ${error instanceof Error ? error.message : error}`);
    }
    changed();
  }

  /** @param {'camera' | 'screen'} which */
  async function start(which) {
    stop();
    message.textContent = '';
    try {
      stream = await (which === 'camera' ? openCamera(camera.value) : openScreen());
      const [track] = stream.getVideoTracks();
      track.addEventListener('ended', () => {
        stop();
        changed();
      });
      video.srcObject = stream;
      await video.play();
      if (which === 'camera') await listCameras(track.getSettings().deviceId ?? '');
    } catch (error) {
      stop();
      tell(error);
    }
    changed();
  }

  /** @param {string} used */
  async function listCameras(used) {
    const found = await cameras();
    const options = found.map(({ deviceId, label }) =>
      h('option', { value: deviceId, selected: deviceId === used }, label),
    );
    fill(camera, ...options);
    camera.hidden = found.length < 2;
  }

  function stop() {
    onend();
    if (stream) close(stream);
    stream = null;
    video.srcObject = null;
  }

  /** @param {Source} next */
  function show(next) {
    if (next !== source) stop();
    source = next;
    tabs.set(next);
    message.textContent = '';
    changed();
  }
  const tabs = segments('What is seen', SOURCES, source, show);

  function drawPictures() {
    fill(
      controls,
      file,
      h('label', { class: 'button', for: file.id }, icon('picture'), 'Choose pictures'),
      field('Longest side', size),
    );
    if (isEmpty()) return fill(stage, h('p', {}, icon('picture'), 'Drop pictures here, or paste one.'));
    const thumbs = pictures.map(({ picture }, i) => {
      const remove = () => {
        pictures.splice(i, 1);
        changed();
      };
      return h(
        'figure',
        { class: 'thumb' },
        h('img', { src: picture.url, alt: picture.name }),
        h('figcaption', {}, `${picture.width} x ${picture.height}`),
        button(`Remove ${picture.name}`, remove, { icon: 'close', quiet: true, class: 'tiny' }),
      );
    });
    fill(stage, ...thumbs);
  }

  function drawClip() {
    fill(
      controls,
      clipFile,
      h('label', { class: 'button', for: clipFile.id }, icon('film'), 'Choose a video'),
      field('Sampled at', clipRate),
    );
    if (!clip) {
      return fill(
        stage,
        h('p', {}, icon('film'), 'A video is sampled to frames in this browser; only those are sent.'),
      );
    }
    const { frames, times } = clip;
    const time = (/** @type {number} */ i) => `${times[i].toFixed(1)} s`;
    const figures = frames.map((url, i) =>
      h('figure', { class: 'frame' }, h('img', { src: url, alt: `Frame at ${time(i)}` }), h('figcaption', {}, time(i))),
    );
    fill(stage, ...figures);
  }

  /** @param {'camera' | 'screen'} which */
  function drawStream(which) {
    const turnOff = () => {
      stop();
      changed();
    };
    const isCamera = which === 'camera';
    fill(
      controls,
      stream
        ? button('Turn off', turnOff, { icon: 'stop' })
        : button(isCamera ? 'Turn on the camera' : 'Share a screen', () => void start(which), { icon: which }),
      isCamera ? camera : null,
      field('Longest side', streamSize),
      ...streamControls,
    );
    const invitation = isCamera
      ? 'Frames go to the engine only when you ask.'
      : 'Share a window or a screen, and ask about what is on it.';
    fill(stage, stream ? video : h('p', {}, icon(which), invitation));
    if (stream) void video.play().catch(() => undefined); // it stops whenever it leaves the page
  }

  function draw() {
    stage.classList.toggle('is-empty', isEmpty());
    if (source === 'pictures') drawPictures();
    else if (source === 'video') drawClip();
    else drawStream(source);
  }

  const element = h('div', { class: 'field' }, h('div', { class: 'row' }, tabs.element), stage, controls, message);
  draw();

  return {
    element,
    isEmpty,
    isStream,
    /** Takes what is dropped on `target`, and what is pasted while it is on the page. @param {HTMLElement} target */
    listen(target) {
      target.addEventListener('dragover', (event) => {
        event.preventDefault();
        stage.classList.add('is-target');
      });
      target.addEventListener('dragleave', () => stage.classList.remove('is-target'));
      target.addEventListener('drop', (event) => {
        event.preventDefault();
        stage.classList.remove('is-target');
        void addFiles(pictureFiles(event.dataTransfer));
      });
      document.addEventListener('paste', (event) => {
        const found = target.isConnected ? pictureFiles(event.clipboardData) : [];
        if (found.length > 0) void addFiles(found);
      });
    },
    /** As members of a request. @returns {[string, Value][]} */
    members() {
      if (source === 'video' && clip) return clipMembers(clip);
      const seen = isStream() ? [frameOf(video, Number(streamSize.value), source)] : pictures.map((one) => one.picture);
      return [['images', seen.map((one) => one.url)]];
    },
    /** @param {string[]} urls data URLs of an earlier request */
    async setPictures(urls) {
      pictures = [];
      show('pictures');
      const blobs = urls.map(dataBlob).filter((blob) => blob !== null);
      await addFiles(blobs);
    },
    stop() {
      stop();
      draw();
    },
  };
}
