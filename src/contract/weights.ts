/** Files that hold model weights (interface.md, Apps). */
const weights = /\.(pt|pth|ckpt|onnx|safetensors|bin|h5)$/i;

export const isWeights = (name: string): boolean => weights.test(name);
