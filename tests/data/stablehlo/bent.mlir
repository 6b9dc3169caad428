// Each product but the last is read twice: by a function and by what it is multiplied with.
module @bent {
  func.func public @main(%arg0: tensor<8x8xf32> loc("params['a']"), %arg1: tensor<8x8xf32> loc("params['b']"), %arg2: tensor<8x8xf32> loc("params['c']"), %arg3: tensor<8x5xf32> loc("params['d']"), %arg4: tensor<4x8xf32> loc("x")) -> (tensor<4x5xf32>) {
    %0 = stablehlo.dot_general %arg4, %arg0, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %t0 = stablehlo.tanh %0 : tensor<4x8xf32>
    %1 = stablehlo.multiply %0, %t0 : tensor<4x8xf32>
    %2 = stablehlo.dot_general %1, %arg1, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %t2 = stablehlo.tanh %2 : tensor<4x8xf32>
    %3 = stablehlo.multiply %2, %t2 : tensor<4x8xf32>
    %4 = stablehlo.dot_general %3, %arg2, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %t4 = stablehlo.tanh %4 : tensor<4x8xf32>
    %5 = stablehlo.multiply %4, %t4 : tensor<4x8xf32>
    %6 = stablehlo.dot_general %5, %arg3, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x5xf32>) -> tensor<4x5xf32>
    return %6 : tensor<4x5xf32>
  }
}
