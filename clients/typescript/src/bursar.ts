import { type Api, createApi } from './api.ts';
import { type ClientOptions, createHttp } from './http.ts';

/** A client of one server, for one user. */
export class Bursar {
  /** Every operation of the server, by its operationId in `/openapi.json`. */
  readonly api: Api;

  constructor(options: ClientOptions = {}) {
    this.api = createApi(createHttp(options));
  }
}
