// A request as code that others can run. The key stays out: programs take it from the environment.
import { parseJson, writeJson } from './json.js';

/** @param {string} text for a shell, in single quotes */
const shellQuoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/**
 * Whether JavaScript's own objects would write this JSON again as it is: keys in their order, numbers in their digits.
 * @param {string} request
 */
function survivesObjects(request) {
  if (request.includes('"__proto__"')) return false;
  return writeJson(parseJson(request)) === JSON.stringify(JSON.parse(request));
}

/** @typedef {{ address: string, request: string, query: string, needsKey: boolean }} Call request: JSON over lines */

/** @param {Call} call */
export function asCurl({ address, request, query, needsKey }) {
  const key = needsKey ? ` \\\n  -H "Authorization: Bearer $CLEF_API_KEY"` : '';
  return `curl ${shellQuoted(`${address}/v1/systemone${query}`)}${key} \\\n  -H 'Content-Type: application/json' \\\n  -d @- <<'JSON'\n${request}\nJSON\n`;
}

/** @param {Call} call */
export function asJavaScript({ address, request, query, needsKey }) {
  const key = needsKey ? '\n    Authorization: `Bearer ${process.env.CLEF_API_KEY}`,' : '';
  const body = survivesObjects(request)
    ? `JSON.stringify(${request.replaceAll('\n', '\n  ')})`
    : `${JSON.stringify(request)}  // as text: an object would move or round what is in it`;
  return `const response = await fetch(${JSON.stringify(`${address}/v1/systemone${query}`)}, {
  method: "POST",
  headers: {
    "Content-Type": "application/json",${key}
  },
  body: ${body},
});
if (!response.ok) throw new Error((await response.json()).message);
const { answers } = await response.json();
console.log(answers);
`;
}

/** @param {Call} call */
export function asPython({ address, request, query, needsKey }) {
  const key = needsKey ? '\n        "Authorization": "Bearer " + os.environ["CLEF_API_KEY"],' : '';
  // No JSON has three quotes in a row, so a raw string holds it as it stands.
  return `import json${needsKey ? '\nimport os' : ''}
import urllib.request

request = r"""${request}"""
call = urllib.request.Request(
    ${JSON.stringify(`${address}/v1/systemone${query}`)},
    data=request.encode(),
    headers={
        "Content-Type": "application/json",${key}
    },
)
with urllib.request.urlopen(call) as response:
    print(json.load(response)["answers"])
`;
}
