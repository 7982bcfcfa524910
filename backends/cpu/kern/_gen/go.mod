// The generator of the assembly kernels: a module of its own, so that users
// of graphrun never download it. avo 0.6.0 pins an x/tools that does not
// compile with this Go release; hence the newer one.
module graphrun/backends/cpu/kern/_gen

go 1.26.0

require github.com/mmcloughlin/avo v0.6.0

require (
	golang.org/x/mod v0.42.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/tools v0.52.0 // indirect
)
