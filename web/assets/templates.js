// Real jobs to begin with: a state and the questions about it.
import { choice, noul, score } from './questions.js';

/** @typedef {import('./questions.js').Question} Question */

/**
 * @typedef {object} Template
 * @property {string} name
 * @property {'text' | 'json'} kind of the state
 * @property {string} state
 * @property {Question[]} questions
 */

/** @type {Template[]} */
export const TEMPLATES = [
  {
    name: 'Ticket triage',
    kind: 'text',
    state: `Subject: Charged twice, and now locked out

Hi, I upgraded to the Team plan this morning and my card was charged two times (2 x 149 EUR). When I tried to open the billing page to check, I was signed out and the password reset mail never arrives. We have a client demo at 15:00 and nobody on my team can get in. Please help quickly.

Mara Lindqvist, Nordlicht Studio`,
    questions: [
      choice('team', 'Which team should take this ticket?', {
        billing: 'Charges, refunds, invoices and plans',
        access: 'Sign-in, passwords, locked accounts',
        product: 'Something in the product does not work',
        sales: 'Questions before buying',
      }),
      score('urgency', 'How soon does this need an answer?', [
        'Whenever there is time',
        'This week',
        'Today',
        'Now: work has stopped or money is at stake',
      ]),
      noul('refund', 'Does the customer have money to get back?'),
      score('mood', 'How does the customer sound?', ['Friendly', 'Neutral', 'Annoyed', 'Angry']),
    ],
  },
  {
    name: 'Moderation',
    kind: 'json',
    state: `{
  "channel": "public comments under a recipe video",
  "author": {"account_age_days": 3, "earlier_warnings": 1},
  "comment": "lol imagine burning THAT. go back to microwaving noodles, clown. better recipes on my page >> cheap-pans-4u.example"
}`,
    questions: [
      choice('action', 'What should happen to the comment?', {
        keep: 'Fine as it is, or merely rude in tone',
        hide: 'Breaks the rules, but is no danger to anyone',
        review: 'A person should look at it first',
        ban: 'The account exists to harm or to spam',
      }),
      noul('insult', 'Does the comment insult a person?'),
      noul('advertising', 'Does the comment advertise something?'),
      score('harm', 'How much harm could it do if it stays?', ['None', 'Little', 'Some', 'Much']),
    ],
  },
  {
    name: 'Receipt check',
    kind: 'json',
    state: `{
  "claim": {"employee": "T. Okafor", "purpose": "Dinner with a client in Lyon", "amount": "184.50 EUR", "date": "2026-03-14"},
  "policy": {"meals_per_person": "60 EUR", "alcohol": "not covered", "needs": ["date", "itemised list", "number of guests"]},
  "receipt": {
    "merchant": "Brasserie Garance", "date": "2026-03-14", "guests": 3,
    "lines": [["Menu du soir", 3, "135.00"], ["Cotes du Rhone 75 cl", 1, "38.00"], ["Cafe", 3, "11.50"]],
    "total": "184.50"
  }
}`,
    questions: [
      choice('decision', 'What should accounting do with this claim?', {
        approve: 'All of it is covered',
        partly: 'Some lines are not covered',
        return: 'Something that the policy asks for is missing',
        reject: 'It is no business expense',
      }),
      noul('total_matches', 'Does the claimed amount equal the total of the receipt?'),
      noul('alcohol', 'Does the receipt list alcohol?'),
      noul('complete', 'Does the receipt have everything that the policy needs?'),
    ],
  },
  {
    name: 'Guardrail',
    kind: 'json',
    state: `{
  "task": "Clean up old preview deployments of the shop project",
  "tool": "shell",
  "command": "kubectl delete namespace shop-preview-118 shop-preview-121 shop-production",
  "environment": {"cluster": "eu-west", "user_confirmed": false, "dry_run": false}
}`,
    questions: [
      choice('verdict', 'May the agent run this command?', {
        allow: 'It does what the task asks and nothing else',
        ask: 'A person should confirm it first',
        block: 'It goes beyond the task or cannot be undone',
      }),
      noul('within_task', 'Does the command stay within the task?'),
      noul('irreversible', 'Would it destroy something that cannot be brought back?'),
      score('blast_radius', 'How far would a mistake reach?', [
        'One preview',
        'One project',
        'Customers',
        'The whole company',
      ]),
    ],
  },
  {
    name: 'Lead scoring',
    kind: 'json',
    state: `{
  "form": "Request a demo",
  "name": "Ines Caldeira", "title": "Head of Operations", "company": "Porto Cold Chain", "employees": 240,
  "message": "We route about 900 deliveries a day and our dispatchers read driver notes by hand. Budget is approved for Q3. Can you run on our own servers?"
}`,
    questions: [
      score('fit', 'How well does this company fit a product that sorts text automatically?', [
        'Not at all',
        'Poorly',
        'Well',
        'Very well',
      ]),
      choice('stage', 'Where do they stand?', {
        browsing: 'Only looking around',
        comparing: 'They compare products',
        buying: 'Budget and need are there',
      }),
      noul('on_premises', 'Do they want to run it on their own machines?'),
      choice('next_step', 'What is the best next step?', {
        call: 'Sales calls today',
        email: 'A mail with material',
        nurture: 'The newsletter is enough',
      }),
    ],
  },
];

/** @type {{ name: string, questions: Question[] }[]} */
export const SEE_TEMPLATES = [
  {
    name: 'What is this?',
    questions: [
      choice('kind', 'What does the picture show?', {
        person: 'One or several people',
        document: 'A page, a form, a receipt or a screen with text',
        object: 'A thing or a product',
        place: 'A room, a street or a landscape',
      }),
      noul('text', 'Is there text that one could read?'),
      score('quality', 'How good is the picture?', ['Unusable', 'Poor', 'Good', 'Sharp and well lit']),
    ],
  },
  {
    name: 'Receipt',
    questions: [
      noul('is_receipt', 'Is this a receipt or an invoice?'),
      noul('total_legible', 'Can the total be read?'),
      noul('date_legible', 'Can the date be read?'),
      choice('category', 'What was bought?', { food: '', travel: '', lodging: '', supplies: '', other: '' }),
    ],
  },
  {
    name: 'At the desk',
    questions: [
      noul('present', 'Is somebody in front of the camera?'),
      choice('looking', 'Where does the person look?', {
        camera: '',
        screen: '',
        away: '',
        nobody: 'There is no person',
      }),
      score('light', 'How is the light?', ['Dark', 'Dim', 'Good', 'Too bright']),
    ],
  },
  {
    name: 'On the line',
    questions: [
      noul('damaged', 'Is the part damaged?'),
      choice('defect', 'Which defect is the clearest?', { none: '', scratch: '', dent: '', crack: '', stain: '' }),
      score('severity', 'How bad is it?', ['None', 'Cosmetic', 'Needs rework', 'Scrap']),
    ],
  },
];

export const TRIAGE_QUESTIONS = TEMPLATES[0].questions.slice(0, 3);

/** Rows to try the batch with. */
export const SAMPLE_CSV = `id,subject,message
1,Charged twice,"My card shows two payments of 149 EUR for one upgrade. Please send one back."
2,Cannot sign in,"The reset mail never arrives and our demo starts in an hour."
3,Question about seats,"We are twelve people. Is there a discount for a yearly plan?"
4,Export is empty,"The CSV export has a header and nothing below it since yesterday's update."
5,Thank you,"Just wanted to say that the new search is wonderful."
6,Wrong VAT number,"The invoice for March has our old VAT number on it. Accounting needs a new one today."
7,App crashes on start,"Since this morning the Android app closes at once on all our tablets. The warehouse stands still."
8,Two-factor device lost,"I lost my phone and cannot get past the second step. Is there a recovery code?"
9,Refund?,"I cancelled within the trial and was charged anyway. This is the third mail about it!!"
10,Partner programme,"Who can I talk to about reselling your product in Portugal?"
11,Slow dashboard,"The dashboard takes about ten seconds to open. Not urgent, but it used to be faster."
12,Delete my account,"Please remove my account and all data, and confirm it in writing."
`;
