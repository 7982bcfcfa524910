package kern

import "graphrun/graph"

// mulGeneric is the specification of Mul: every row is decoded block by block
// and multiplied with all tokens. It needs no scratch memory.
//
//	Q8:   y = Σ_b dx[b]·(d·Σ q·x + m·Σ x)
//	Q8K:  y = Σ_b dx[b]·(Σ_j d·sc[j]·Σ q·x − dmin·Σ_j mn[j]·Σ x)
//
// where the inner sums over products and over x are exact integers.
func mulGeneric(y []float32, ldy int, w *Mat, x []byte, ldx int, T, lo, hi int) {
	f := &formats[w.Type]
	rb := w.rowBytes()
	for n := lo; n < hi; n++ {
		row := w.Data[n*rb : (n+1)*rb]
		for t := range T {
			y[t*ldy+n] = 0
		}
		switch {
		case f.act == graph.Q8:
			mulRow32(y[n:], ldy, w, f, row, x, ldx, T)
		case f.act == graph.Q8K:
			mulRow256(y[n:], ldy, w, f, row, x, ldx, T)
		default:
			mulRowFloat(y[n:], ldy, w, row, x, ldx, T)
		}
	}
}

func mulRow32(y []float32, ldy int, w *Mat, f *format, row, x []byte, ldx int, T int) {
	var blk block32
	nb, size := w.K/32, w.Type.BlockBytes()
	for b := range nb {
		decode32(w.Type, &blk, row[b*size:(b+1)*size])
		for t := range T {
			xt := x[t*ldx:]
			dot := int32(0)
			for i, v := range (*[32]byte)(xt[b*32:]) {
				dot += int32(int8(v)) * int32(blk.q[i])
			}
			v := blk.d * float32(dot)
			if f.min {
				v += blk.m * float32(i32at(xt, w.K+4*nb+4*b))
			}
			y[t*ldy] += f32at(xt, w.K+4*b) * v
		}
	}
}

func mulRow256(y []float32, ldy int, w *Mat, f *format, row, x []byte, ldx int, T int) {
	var blk block256
	nb, size := w.K/256, w.Type.BlockBytes()
	for b := range nb {
		decode256(w.Type, &blk, row[b*size:(b+1)*size])
		for t := range T {
			xt := x[t*ldx:]
			v, mins := float32(0), int32(0)
			for j := range 16 {
				dot := int32(0)
				q := (*[16]int8)(blk.q[16*j:])
				for i, a := range (*[16]byte)(xt[b*256+16*j:]) {
					dot += int32(int8(a)) * int32(q[i])
				}
				v += blk.d * float32(blk.sc[j]) * float32(dot)
				mins += int32(blk.mn[j]) * int32(i16at(xt, w.K+4*nb+2*(16*b+j)))
			}
			if f.min {
				v -= blk.dmin * float32(mins)
			}
			y[t*ldy] += f32at(xt, w.K+4*b) * v
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
