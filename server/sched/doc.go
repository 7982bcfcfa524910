// Package sched runs the requests of many clients in one model at once.
package sched
