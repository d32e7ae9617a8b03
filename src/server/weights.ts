const weights = /\.(pt|pth|ckpt|onnx|safetensors|bin|h5)$/i;

/** Whether a file of this name holds model weights (docs/http.md, Apps). */
export const isWeights = (name: string): boolean => weights.test(name);
