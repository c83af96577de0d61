// The one type that JSDoc cannot say: a typedef there may not name itself inside a Map. Not served.
import type { Num } from './assets/json.js';

export type Value = null | boolean | string | Num | Value[] | Map<string, Value>;
