// Pictures as the engine takes them: data URLs, no larger than asked for.

/**
 * @typedef {object} Picture
 * @property {string} name
 * @property {string} url data URL
 * @property {number} width
 * @property {number} height
 */

/** A file's own bytes. 0 as the longest side stands for them. */
export const ORIGINAL = 0;

const QUALITY = 0.9; // of JPEG, where a picture is drawn anew

/** @param {Blob} blob @returns {Promise<string>} */
export function dataUrl(blob) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(/** @type {string} */ (reader.result));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(blob);
  });
}

/**
 * What a source shows now, as a JPEG.
 * @param {CanvasImageSource} source
 * @param {number} width of the source
 * @param {number} height
 * @param {{ width: number, height: number }} size of the result
 * @returns {string} data URL
 */
export function drawn(source, width, height, size) {
  const canvas = document.createElement('canvas');
  Object.assign(canvas, size);
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext('2d', { alpha: false }));
  context.fillStyle = '#fff'; // the engine drops transparency, and would show what colour lies below it
  context.fillRect(0, 0, size.width, size.height);
  context.imageSmoothingQuality = 'high';
  context.drawImage(source, 0, 0, width, height, 0, 0, size.width, size.height);
  return canvas.toDataURL('image/jpeg', QUALITY);
}

/**
 * @param {number} width
 * @param {number} height
 * @param {number} longestSide
 */
export function fitted(width, height, longestSide) {
  const scale = Math.min(1, longestSide / Math.max(width, height));
  return { width: Math.max(1, Math.round(width * scale)), height: Math.max(1, Math.round(height * scale)) };
}

/**
 * @param {Blob & { name?: string }} file
 * @param {number} longestSide
 * @returns {Promise<Picture>}
 * @throws {Error} in words for the reader
 */
export async function pictureOf(file, longestSide) {
  const name = file.name ?? 'picture';
  let bitmap;
  try {
    bitmap = await createImageBitmap(file); // turned as its EXIF says
  } catch {
    throw new Error(`${name} is no picture that this browser can read`);
  }
  const { width, height } = bitmap;
  try {
    if (longestSide === ORIGINAL) return { name, url: await dataUrl(file), width, height };
    const size = fitted(width, height, longestSide);
    return { name, url: drawn(bitmap, width, height, size), ...size };
  } finally {
    bitmap.close();
  }
}

/**
 * What a playing video shows now.
 * @param {HTMLVideoElement} video
 * @param {number} longestSide
 * @param {string} name
 * @returns {Picture}
 */
export function frameOf(video, longestSide, name) {
  const { videoWidth: width, videoHeight: height } = video;
  const size = fitted(width, height, longestSide);
  return { name, url: drawn(video, width, height, size), ...size };
}

/** The picture files of what was dropped, pasted or chosen. @param {DataTransfer | null} transfer */
export const pictureFiles = (transfer) => [...(transfer?.files ?? [])].filter((file) => file.type.startsWith('image/'));

/**
 * The bytes of a data URL.
 * @param {string} url
 */
export function dataBlob(url) {
  const found = /^data:([a-z]+\/[a-z0-9.+-]+);base64,(.*)$/s.exec(url);
  if (!found) return null;
  try {
    const bytes = Uint8Array.from(atob(found[2]), (character) => character.charCodeAt(0));
    return new File([bytes], 'picture', { type: found[1] });
  } catch {
    return null;
  }
}
