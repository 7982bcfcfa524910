package engine

import (
	"graphrun/archs"
	"graphrun/graph"
	"graphrun/loaders"
)

// Estimate returns what a model would need in memory under the options, without
// compiling it or taking any of it.
func Estimate(f *loaders.Model, o Options) (r MemoryReport, err error) {
	err = f.Guard(func() error {
		r, err = o.estimate(f)
		return err
	})
	return r, err
}

func (o *Options) estimate(f *loaders.Model) (MemoryReport, error) {
	arch, err := archs.Load(f)
	if err != nil {
		return MemoryReport{}, err
	}
	kv := o.KV
	if kv == graph.Invalid && o.Backend == "ref" {
		kv = graph.F32
	}
	g, err := arch.Graph(archs.GraphOptions{KV: kv})
	if err != nil {
		return MemoryReport{}, err
	}
	dropped, err := dropParts(g, o.Drop)
	if err != nil {
		return MemoryReport{}, err
	}
	l, err := o.limits(arch.V, arch.ContextLength)
	if err != nil {
		return MemoryReport{}, err
	}
	r := estimate(g, stepDims(l, o.cacheSize(g, l)))
	r.Made, r.Dropped, r.Read = madeBytes(g, f), dropped, o.Read
	return r, nil
}
