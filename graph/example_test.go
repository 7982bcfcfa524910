package graph_test

import (
	"fmt"
	"os"

	"graphrun/graph"
)

// double is an operation as package ops writes them.
var double = graph.Register(&graph.Op{
	Name: "double", Doc: "y = x + x", MinArgs: 1, MaxArgs: 1, Flags: graph.Pure,
	Infer: func(args []graph.Type, _ graph.Attrs) (graph.Type, error) { return args[0], nil },
	Kernel: func(c *graph.Call, lo, hi int) {
		for t := lo; t < hi; t++ {
			for i, x := range c.In[0].Row(t) {
				c.Out.Row(t)[i] = x + x
			}
		}
	},
})

// A graph is built, simplified, planned and printed.
func Example() {
	b := graph.NewBuilder("tiny")
	x := b.Input("x", graph.F32, graph.Rows("T", 8))
	y := b.Name(b.Op(double, nil, b.Op(double, nil, x)), "quadruple")
	z := b.Op(double, nil, b.Op(double, nil, x)) // the same again
	b.Output("y", y)
	b.Output("z", z)
	g, err := b.Finish()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, v := range g.Values {
		v.Origin = ""
	}

	p := graph.MustPipeline([]graph.Pass{
		{Name: "cse", Run: graph.CSE},
		{Name: "dce", Run: graph.DCE},
		{Name: "schedule", Run: graph.Schedule, Required: true, Orders: true},
		{Name: "memplan", Run: graph.MemPlan, Required: true, Orders: true},
	}, []graph.Order{
		{Before: "cse", After: "dce", Reason: "cse leaves the twins behind"},
		{Before: "schedule", After: "memplan", Reason: "lives are steps of the schedule"},
	})
	g.Bound = graph.Dims{"T": 4}
	if _, err := p.Run(g, graph.RunOptions{Check: true}); err != nil {
		fmt.Println(err)
		return
	}
	g.WriteText(os.Stdout)
	// Output:
	// graph "tiny" next=5 arena=256 bound={T=4} {
	//   v0 = input "x" : f32[T,8]
	//   v1 = double v0 : f32[T,8] mem=0+128 live=1..2
	//   v2 = double v1 : f32[T,8] "quadruple" mem=128+128 live=2..3
	//   output "y" = v2
	//   output "z" = v2
	// }
}

// Errors of the reader name the place.
func ExampleParse() {
	_, err := graph.Parse(`graph "tiny" {
  v0 = input "x" : f32[T,8]
  v1 = double v2 : f32[T,8]
  output "y" = v1
}`)
	fmt.Println(err)
	// Output: graph: line 3, column 15: found v2, which no line defines, expected a value defined above
}
