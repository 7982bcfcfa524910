package kern

import "graphrun/graph"

// mulGeneric is the specification of Mul: every row is decoded block by block
// and multiplied with all tokens. It needs no scratch memory. For quantized
// types the operations, their order and their roundings are part of the
// specification; see Mul.
func mulGeneric(y []float32, ldy int, w *Mat, x []byte, ldx int, T, lo, hi int) {
	f := &formats[w.Type]
	rb := w.rowBytes()
	for n := lo; n < hi; n++ {
		row := w.Data[n*rb : (n+1)*rb]
		if f.act == graph.F32 {
			for t := range T {
				y[t*ldy+n] = 0
			}
			mulRowFloat(y[n:], ldy, w, row, x, ldx, T)
			continue
		}
		// Some tokens at a time share the decoding.
		var parts [8]partSums
		for t := 0; t < T; t += len(parts) {
			p := parts[:min(len(parts), T-t)]
			clear(p)
			if f.act == graph.Q8 {
				mulRow32(p, w, f, row, x[t*ldx:], ldx)
			} else {
				mulRow256(p, w, f, row, x[t*ldx:], ldx)
			}
			for i := range p {
				y[(t+i)*ldy+n] = p[i][0] + p[i][1] + p[i][2] + p[i][3]
			}
		}
	}
}

// partSums are the partial sums of a row of a quantized type. Block b of n
// blocks of 32 adds to number (b−n) mod 4; superblocks add to number 0.
type partSums [4]float32

func mulRow32(y []partSums, w *Mat, f *format, row, x []byte, ldx int) {
	var blk block32
	nb, size := w.K/32, w.Type.BlockBytes()
	for b := range nb {
		decode32(w.Type, &blk, row[b*size:(b+1)*size])
		for t := range y {
			xt := x[t*ldx:]
			dot := int32(0)
			for i, v := range (*[32]byte)(xt[b*32:]) {
				dot += int32(int8(v)) * int32(blk.q[i])
			}
			v := float32(normal(blk.d) * float32(dot))
			if f.min {
				v += float32(blk.m * float32(i32at(xt, w.K+4*nb+4*b)))
			}
			y[t][(b-nb)&3] += float32(f32at(xt, w.K+4*b) * v)
		}
	}
}

// normal returns a block scale as products use it. Only MXFP4 has scales in
// the subnormal range, 2⁻¹²⁷ and 2⁻¹²⁸; they count as zero, since some
// processors are many times slower with them.
func normal(d float32) float32 {
	if -0x1p-126 < d && d < 0x1p-126 {
		return 0
	}
	return d
}

func mulRow256(y []partSums, w *Mat, f *format, row, x []byte, ldx int) {
	var blk block256
	nb, size := w.K/256, w.Type.BlockBytes()
	for b := range nb {
		decode256(w.Type, &blk, row[b*size:(b+1)*size])
		for t := range y {
			xt := x[t*ldx:]
			sum, mins := int32(0), int32(0)
			for j := range 16 {
				dot := int32(0)
				q := (*[16]int8)(blk.q[16*j:])
				for i, a := range (*[16]byte)(xt[b*256+16*j:]) {
					dot += int32(int8(a)) * int32(q[i])
				}
				sum += int32(blk.sc[j]) * dot
				mins += int32(blk.mn[j]) * int32(i16at(xt, w.K+4*nb+2*(16*b+j)))
			}
			v := float32(blk.d * float32(sum))
			if f.min {
				v -= float32(blk.dmin * float32(mins))
			}
			y[t][0] += float32(f32at(xt, w.K+4*b) * v)
		}
	}
}

func mulRowFloat(y []float32, ldy int, w *Mat, row, x []byte, ldx int, T int) {
	var buf [256]float32
	for k := 0; k < w.K; k += len(buf) {
		n := min(len(buf), w.K-k)
		for i := range n {
			buf[i] = elem(w.Type, row, k+i)
		}
		for t := range T {
			xt := x[t*ldx+4*k:]
			xt = xt[:4*n]
			var s [4]float32
			for i := range n {
				s[i%4] += buf[i] * f32at(xt, 4*i)
			}
			y[t*ldy] += (s[0] + s[1]) + (s[2] + s[3])
		}
	}
}
