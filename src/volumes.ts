/** Apps import this as `remote-app/volumes`. */
export * from '@remote-app/volumes';
