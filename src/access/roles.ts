/** What a token allows: a user's own jobs, or those of all. */
export const roles = ['user', 'admin'] as const;
export type Role = (typeof roles)[number];
