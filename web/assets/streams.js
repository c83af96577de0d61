// Camera and screen.

/** @typedef {{ stream: MediaStream, name: string }} Source */

const REASONS = new Map([
  ['NotAllowedError', 'The browser does not allow it. Its address bar has the permission.'],
  ['NotFoundError', 'There is none on this machine.'],
  ['NotReadableError', 'Another program uses it.'],
  ['OverconstrainedError', 'The chosen camera is gone.'],
]);

/**
 * @param {string} what
 * @param {() => Promise<MediaStream>} open
 */
async function opened(what, open) {
  if (!navigator.mediaDevices) {
    throw new Error(
      `${what}: browsers give it only to pages of this machine or over https. This page is at ${location.origin}.`,
    );
  }
  try {
    return await open();
  } catch (error) {
    const name = error instanceof DOMException ? error.name : '';
    throw new Error(`${what}: ${REASONS.get(name) ?? String(error)}`);
  }
}

/** @param {string} deviceId '' for any */
export const openCamera = (deviceId) =>
  opened('Camera', () =>
    navigator.mediaDevices.getUserMedia({
      audio: false,
      video: deviceId ? { deviceId: { exact: deviceId } } : { width: { ideal: 1280 } },
    }),
  );

export const openScreen = () =>
  opened('Screen', () => navigator.mediaDevices.getDisplayMedia({ audio: false, video: true }));

/** Their names are told once one of them was allowed. */
export async function cameras() {
  const devices = (await navigator.mediaDevices?.enumerateDevices()) ?? [];
  return devices
    .filter((device) => device.kind === 'videoinput')
    .map(({ deviceId, label }, i) => ({ deviceId, label: label || `Camera ${i + 1}` }));
}

/** @param {MediaStream} stream */
export const close = (stream) => stream.getTracks().forEach((track) => track.stop());
