package archs

import "graphrun/loaders"

func writeLlama(w *loaders.HFWriter)  {}
func writeRope(w *loaders.HFWriter)   {}
func writeGemma2(w *loaders.HFWriter) {}
func writeGemma3(w *loaders.HFWriter) {}
func writeGemma4(w *loaders.HFWriter) {}
func writeGptOss(w *loaders.HFWriter) {}
