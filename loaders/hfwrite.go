package loaders

// HFWriter x
type HFWriter struct{}
