// Package deploytest reads deploy/kubernetes.yaml with the types of Kubernetes
// themselves. It is a module of its own, so that nobody who uses graphrun
// downloads them.
package deploytest
