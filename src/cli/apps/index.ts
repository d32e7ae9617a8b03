/** Choosing, showing and creating apps. */
export { checkListed, chooseApp, naming } from './app-choice.js';
export { firstSteps, type Language, languageNames, type NewApp, writeNewApp } from './new-app.js';
export { type AppsSummary, refreshApps, showApps } from './show-apps.js';
