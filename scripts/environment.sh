# Sourced by the scripts that build, from the repository's root and after setup.sh, which finds the toolkit.
[ ! -e build/cuda ] || export CUDA_HOME=$PWD/build/cuda
# Two clones of one tree give the same objects, so a compiler cache may serve one from the other.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
