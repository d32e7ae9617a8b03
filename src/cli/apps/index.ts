/** Choosing, showing and creating apps. */
export { checkListed, chooseApp, suggestingApp } from './app-choice.js';
export { firstSteps, initApp } from './init.js';
export { type ModelKind, modelKinds } from './model-app.js';
export { type Language, languageNames, type NewApp } from './new-app.js';
export { type AppsSummary, refreshApps, showApps } from './show-apps.js';
