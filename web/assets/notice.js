// A problem on the page: what happened, where, and what to do.
import { button, h, icon } from './dom.js';
import { Problem } from './problem.js';

/**
 * @param {unknown} error
 * @param {{ onretry?: () => void }} [options]
 */
export function notice(error, { onretry } = {}) {
  const problem = error instanceof Problem ? error : new Problem('This page made a mistake', { said: String(error) });
  const wait =
    problem.retryAfterMs === null
      ? ''
      : ` It is worth trying again in ${Math.max(0.1, problem.retryAfterMs / 1000).toFixed(1)} s.`;
  const said = problem.flaws.length > 0 ? '' : problem.said;
  return h(
    'div',
    { class: 'notice', role: 'alert' },
    icon('warning'),
    h(
      'div',
      {},
      h('p', { class: 'title' }, problem.title),
      problem.flaws.length > 0
        ? h('ul', {}, ...problem.flaws.map((f) => h('li', {}, h('code', {}, f.field), ' ', f.message)))
        : null,
      said ? h('p', {}, 'It says: ', h('q', {}, said)) : null,
      problem.advice || wait ? h('p', {}, problem.advice + wait) : null,
      problem.requestId ? h('p', { class: 'remark' }, `Request id ${problem.requestId}`) : null,
      h(
        'div',
        { class: 'row' },
        onretry ? button('Try again', onretry) : null,
        problem.place === 'settings'
          ? button('Open settings', () => document.dispatchEvent(new CustomEvent('open-settings')), { icon: 'gear' })
          : null,
      ),
    ),
  );
}
