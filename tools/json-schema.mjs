/** The parts of JSON Schema that the OpenAPI document consists of. */

export const string = { type: 'string' };
export const integer = { type: 'integer' };
export const number = { type: 'number' };
export const boolean = { type: 'boolean' };
export const binary = { ...string, format: 'binary' };
export const textOrNull = { type: ['string', 'null'] };
export const time = { ...textOrNull, format: 'date-time' };
export const array = (items) => ({ type: 'array', items });
export const object = (properties, required = Object.keys(properties)) => ({
  type: 'object',
  properties,
  required,
});
export const map = (values) => ({ type: 'object', additionalProperties: values });
