#pragma once

/// \file
/// Everything an embedder needs.

#include <kiln/engine.hpp>
#include <kiln/error.hpp>
#include <kiln/log.hpp>
#include <kiln/op.hpp>
#include <kiln/target.hpp>
#include <kiln/tensor.hpp>
#include <kiln/version.hpp>
