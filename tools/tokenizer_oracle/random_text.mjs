// Seeded random strings that mix what tokenizers trip over.

// mulberry32: small, seeded, good enough to pick strings with.
function generator(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

function matching(regex) {
  const found = [];
  for (let code = 0; code < 0x110000; ++code) {
    if (code >= 0xd800 && code < 0xe000) continue;
    const c = String.fromCodePoint(code);
    if (regex.test(c)) found.push(c);
  }
  return found;
}

function range(first, last) {
  return Array.from({ length: last - first + 1 }, (_, i) => String.fromCodePoint(first + i));
}

// Bytes of byte-level symbols (GPT-2's alphabet), as text; null when they are no valid UTF-8.
function symbolText(symbols, bytes) {
  const decoded = Buffer.from([...symbols].map((symbol) => bytes.get(symbol) ?? 0xff));
  const text = decoded.toString("utf8");
  return text.includes("\ufffd") ? null : text;
}

function byteAlphabet() {
  const bytes = new Map();
  let next = 0x100;
  for (let b = 0; b < 256; ++b) {
    const isItself = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
    bytes.set(String.fromCodePoint(isItself ? b : next++), b);
  }
  return bytes;
}

// Lists of strings to pick from; `definition` is a parsed tokenizer.json.
export function alphabets(definition) {
  const marks = matching(/\p{M}/u);
  const bytes = byteAlphabet();
  const added = definition.added_tokens.map((token) => token.content);
  return [
    range(0x61, 0x7a),
    range(0x41, 0x5a),
    range(0x30, 0x39),
    range(0x21, 0x2f).concat([..."<|>{}[]_`~:;@"]),
    [" ", " ", " ", "  ", "\n", "\r\n", "\r", "\t", "\u00a0", "\u3000", "\u2028", "\u2029", "\u0085", "\v", "\f"],
    matching(/\p{White_Space}/u).concat(["\u200b", "\ufeff", "\u180e", "\u001c", "\u001f"]),
    range(0, 0x1f).concat(range(0x7f, 0x9f)),
    ["'s", "'S", "'t", "'re", "'RE", "'ve", "'m", "'ll", "'lL", "'d", "'\u017f", "'", "\u2019s", " 's", "'r", "'l"],
    ["\u017f", "\u212a", "\u0130", "\u0131", "\u00df", "\ufb05", "\u1e9e", "\u0149"],
    marks,
    range(0x300, 0x36f),
    [..."eaouncs"].concat(["\u0301", "\u0308", "\u0327", "\u0323", "\u030c", "\u00e9", "\u1e69", "\u01d5", "\u212b"]),
    matching(/\p{N}/u),
    matching(/\p{L}/u),
    matching(/[\p{P}\p{S}]/u),
    range(0x900, 0x97f),
    range(0xe01, 0xe4e),
    range(0x621, 0x65f),
    range(0x5d0, 0x5ea).concat(range(0x591, 0x5c7)),
    range(0xac00, 0xac40).concat(range(0x1100, 0x1112), range(0x1161, 0x1175), range(0x11a7, 0x11c2)),
    range(0x4e00, 0x4f00).concat(["\u3001", "\u3002", "\uff0c", "\uf900", "\ufa0e", "\ufa10"]),
    range(0x3041, 0x30ff).concat(["\u3099", "\u309a", "\uff9e"]),
    ["\u{1f469}", "\u{1f3fd}", "\u200d", "\u{1f4bb}", "\ufe0f", "\u{1f1e9}", "\u{1f1ea}", "\u{1f600}", "\u20e3"],
    ["\ufffd", "\ufffe", "\uffff", "\u{10ffff}", "\ue000", "\u{e0041}", "\0", "\u00ad", "\u{1d15e}", "\u{1d157}"],
    // What Unicode 10 and later gave a combining class or a composition.
    range(0x8ca, 0x8d3).concat(["\u1df8", "\u0c3c", "\u{1e08f}", "\u{10efd}", "\u{11938}", "\u{11935}", "\u{11930}"]),
    added.concat(added.map((text) => text.slice(0, -1)), ["<|", "|>", "<", "</"]),
    Object.keys(definition.model.vocab)
      .map((symbols) => symbolText(symbols, bytes))
      .filter((text) => text !== null),
  ];
}

export function randomText(seed, lists) {
  const random = generator(seed);
  const below = (limit) => Math.floor(random() * limit);
  const pick = (list) => list[below(list.length)];
  const vocabulary = lists[lists.length - 1];
  const anything = () => {
    const code = below(0x110000);
    return code >= 0xd800 && code < 0xe000 ? "" : String.fromCodePoint(code);
  };
  return {
    // `length` of the letters.
    word(letters, length) {
      return Array.from({ length }, () => pick(letters)).join("");
    },
    next() {
      // A few alphabets a string, so that neighbours of the same kind meet often.
      const chosen = Array.from({ length: 1 + below(5) }, () => pick(lists));
      const parts = below(200) === 0 ? 100 + below(300) : 1 + below(16);
      let text = "";
      for (let i = 0; i < parts; ++i) {
        const kind = below(100);
        if (kind < 2) text += anything();
        else if (kind < 4) text += pick(pick(chosen)).repeat(1 + below(below(20) === 0 ? 300 : 6));
        else if (kind < 24) text += pick(vocabulary);
        else text += pick(pick(chosen));
      }
      return text;
    },
  };
}
