package archs

import (
	"math"

	"graphrun/ops"
)

// Layer holds the facts of one decoder layer, found once when a model is
// loaded.
type Layer struct {
	Index   int
	H, G, K int // query heads, kv heads, head width
	F       int // width of the dense feed-forward
	E, U, X int // experts, experts used per token, width of one; 0 in dense layers
	P       int // width of its own embedding of the token, 0 without
	// Window is the number of positions a token sees, itself included; 0 is all.
	Window int
	// KVDonor is the layer whose cache attention reads: Index, or an earlier
	// layer when this one has no keys and values of its own.
	KVDonor int
	// Scale multiplies the attention scores; Softcap bends them, 0 is off.
	Scale, Softcap float32
	Rope           ops.RopeParams
	// RopeFreqs says that the divisors of rope_freqs.weight apply.
	RopeFreqs bool
}

// Sliding reports whether the layer sees a window only.
func (l *Layer) Sliding() bool { return l.Window > 0 }

// Full reports whether the layer sees all positions.
func (l *Layer) Full() bool { return l.Window == 0 }

// OwnsKV reports whether the layer has keys and values of its own.
func (l *Layer) OwnsKV() bool { return l.KVDonor == l.Index }

// SharesKV reports whether the layer reads the cache of an earlier one.
func (l *Layer) SharesKV() bool { return l.KVDonor != l.Index }

// MoE reports whether the layer has experts.
func (l *Layer) MoE() bool { return l.E > 0 }

// Dense reports whether the layer has no experts.
func (l *Layer) Dense() bool { return l.E == 0 }

// PLE reports whether the layer gets an embedding of its own.
func (l *Layer) PLE() bool { return l.P > 0 }

// resolveLayers fills the facts of all layers and checks them.
func (m *Model) resolveLayers(c *Config) {
	m.Layers = make([]Layer, c.layers)
	for i := range m.Layers {
		l := &m.Layers[i]
		l.Index, l.KVDonor = i, i
		l.H = c.IntAt("attention.head_count", i)
		l.G = c.IntAt("attention.head_count_kv", i)
		l.K = c.Int("attention.key_length")
		l.F = c.IntAt("feed_forward_length", i)
		l.Rope = ops.RopeParams{
			Base: c.Float("rope.freq_base"),
			Dims: c.Int("rope.dimension_count"),
			Half: m.Arch.Rope == Half,
		}
		if c.listed("expert_count") {
			l.E, l.U = c.Int("expert_count"), c.Int("expert_used_count")
		}
		if c.listed("expert_feed_forward_length") {
			l.X = c.Int("expert_feed_forward_length")
		}
		l.P = m.P
		if c.err != nil {
			return
		}
		l.Scale = float32(1 / math.Sqrt(float64(l.K)))
		if m.Arch.Layer != nil {
			m.Arch.Layer(c, l)
		}
		if l.E == 0 {
			l.U, l.X = 0, 0
		}
		m.checkLayer(c, l)
	}
}

// checkLayer refuses facts that no graph can be built from.
func (m *Model) checkLayer(c *Config, l *Layer) {
	switch {
	case c.err != nil:
	case l.H == 0:
		c.FailKey("attention.head_count", "at least 1 head in layer %d", l.Index)
	case l.G == 0 || l.H%l.G != 0:
		c.FailKey("attention.head_count_kv", "a divisor of the %d query heads of layer %d", l.H, l.Index)
	case l.K%2 != 0 || l.K == 0 || l.K > ops.MaxHeadWidth:
		c.FailKey(c.ofKind("attention.key_length", l), "%s", headWidth.Want)
	case l.Rope.Dims%2 != 0 || l.Rope.Dims == 0 || l.Rope.Dims > l.K:
		c.FailKey(c.ofKind("rope.dimension_count", l), "an even number up to the head width %d of layer %d", l.K, l.Index)
	case l.Dense() && l.F == 0:
		c.FailKey("feed_forward_length", "at least 1 in layer %d", l.Index)
	case l.MoE() && (l.U == 0 || l.U > l.E):
		c.FailKey("expert_used_count", "a number from 1 to the %d experts", l.E)
	case l.MoE() && c.listed("expert_feed_forward_length") && l.X == 0:
		c.FailKey("expert_feed_forward_length", "at least 1, as layer %d has experts", l.Index)
	case c.listed("attention.value_length") && c.Int("attention.value_length") != c.Int("attention.key_length"):
		c.FailKey("attention.value_length", "%d, the key length", c.Int("attention.key_length"))
	case l.SharesKV():
		m.checkDonor(c, l)
	}
}

// ofKind returns the key that holds a number for a layer, where layers with a
// window have a key of their own.
func (c *Config) ofKind(name string, l *Layer) string {
	if l.Sliding() && c.listed(name+"_swa") {
		return name + "_swa"
	}
	return name
}

// checkDonor refuses a cache that is not there or has another shape.
func (m *Model) checkDonor(c *Config, l *Layer) {
	if l.KVDonor < 0 || l.KVDonor > l.Index {
		c.FailKey("attention.shared_kv_layers", "an earlier layer of the same kind with keys and values for layer %d", l.Index)
		return
	}
	d := &m.Layers[l.KVDonor]
	if d.SharesKV() || d.G != l.G || d.K != l.K || d.Window != l.Window {
		c.FailKey("attention.shared_kv_layers", "layer %d (%d heads of %d, window %d) and layer %d, whose cache it reads (%d heads of %d, window %d), to agree",
			l.Index, l.G, l.K, l.Window, d.Index, d.G, d.K, d.Window)
	}
}

// Scaling completes a rope from the usual rope.scaling keys: linear, or yarn
// where the record's check lets that type pass.
func (l *Layer) Scaling(c *Config) {
	factor := c.Float("rope.scaling.factor")
	switch c.Text("rope.scaling.type") {
	case "linear":
		l.Rope.Linear = factor
	case "yarn":
		if factor < 1 {
			c.FailKey("rope.scaling.factor", "at least 1 with rope.scaling.type yarn")
		}
		l.Rope.Yarn = ops.Yarn{
			Factor:      factor,
			OrigContext: c.Int("rope.scaling.original_context_length"),
			BetaFast:    32,
			BetaSlow:    1,
			AttnFactor:  c.Float("rope.scaling.attn_factor"),
		}
	}
}
